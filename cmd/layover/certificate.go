package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a certificate of two files that may change while it is used:
// they are looked at again when a handshake comes, at most once a second.
type certificate struct {
	log *slog.Logger

	mu     sync.Mutex
	files  tlsFiles
	cert   *tls.Certificate // the last good one
	seen   [2]stamp         // of the files when they were read last
	looked time.Time
}

// stamp tells one content of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

func stamps(files tlsFiles) (both [2]stamp) {
	for i, name := range []string{files.Cert, files.Key} {
		if info, err := os.Stat(name); err == nil {
			both[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return both
}

func newCertificate(files tlsFiles, log *slog.Logger) (*certificate, error) {
	c := &certificate{log: log, files: files}
	return c, c.readLocked()
}

func (c *certificate) readLocked() error {
	c.looked, c.seen = time.Now(), stamps(c.files)
	cert, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return err
	}
	c.cert = &cert
	return nil
}

// use changes over to other files, which may be the same with a new content.
// After an error the last good certificate stays.
func (c *certificate) use(files tlsFiles) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = files
	return c.readLocked()
}

// get is made for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < time.Second {
		return c.cert, nil
	}
	c.looked = time.Now()
	if stamps(c.files) == c.seen {
		return c.cert, nil
	}
	if err := c.readLocked(); err != nil {
		c.log.Error("the certificate changed and cannot be used; the last one stays", "err", err)
		return c.cert, nil
	}
	c.log.Info("the certificate changed")
	return c.cert, nil
}
