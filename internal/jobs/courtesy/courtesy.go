// Package courtesy asks job boards politely: as often as each allows, and no
// more than is needed.
//
//	c, err := courtesy.New(courtesy.Options{Version: "1.4", Folder: folder})
//	defer c.Close()
//	page, err := b.Page(ctx, c.Fetch(b), listing, "")   // ctx has the operation's budget
//
// # What a fetch goes through
//
// An answer that is young enough by the board's Fresh or Least is given again;
// its At says how old it is. Else one of those who want it now asks for all of
// them, on its own budget; if that ends first, the next of them asks. It asks
// through the host's lane, at the board's pace and after the pauses that the
// host demanded, and only for what changed if the board can tell. Answers of
// status 200 that are what they should be are kept, the least recently used up
// to Options.CacheBytes, packed.
//
// # Least
//
// A board's Least forbids to ask the same thing again within it. It counts from
// the board's last answer, and holds also when that is lost, too large to keep,
// or from before a restart: then there is a rate_limited Trouble with the time
// at which it may be asked again. A failure does not count as an answer.
//
// # Safety
//
// Requests go by https, to port 443 of the boards' own hosts, and only to
// public addresses. The address is checked after the name was resolved, at the
// moment of the connection, and again for each. Redirects do not lead to
// another host. Certificates are checked and TLS is 1.2 or newer. The size of
// headers, bodies and what they unpack to is limited.
//
// If Options.Proxy names a proxy for a request, the connection is to the proxy,
// which then resolves the name: addresses are not checked, the rest is.
//
// # What survives a restart
//
// With a folder, the hosts' pauses, the kept answers and what is in a Keep. It
// is written within a second of a change (a second for each MiB that it has), and
// at Close, so a kill costs no more. The file counts time from when it was written and a clock that was
// set back does not lengthen anything. One process has the folder; another one
// that wants it works from memory until it ends, as does one whose folder cannot
// be used: the log and Stats say so.
//
// # Concurrency
//
// Everything may be called from several goroutines at once. With a folder there
// is one goroutine, which writes it and ends with Close. No lock is held while
// a file or the network is at work. Two are held together in two places: that
// of the lanes before a lane's, and that of the keeps before a Keep's.
package courtesy

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"layover/lane"
)

// Options are the settings of a Courtesy. The zero value works, from memory.
type Options struct {
	// Version, Site and Contact are what boards are told about who asks: the
	// program's version, a page about it, and how to reach who runs it. Default:
	// "dev", and neither of the others.
	Version, Site, Contact string

	// Folder is where the state is kept. It is made if it is missing, and its
	// files are readable for its owner only. Default "": nothing is kept.
	Folder string

	// CacheBytes bounds what is kept of answers, packed. Default 64 MiB.
	CacheBytes int64

	// Proxy chooses the proxy of a request, as http.ProxyFromEnvironment does.
	// See the package comment for what it costs. Default nil: none.
	Proxy func(*http.Request) (*url.URL, error)

	// Dial stands in for the network, for boards that are played on this machine:
	// all requests go over its connections, without TLS, and addresses are not
	// checked. Default nil: the network. See Local.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Log is told what is wrong with the folder. Default: nobody.
	Log *slog.Logger
}

// Local is an Options.Dial that leads everywhere to one address of this
// machine, which must be an IP address of the loopback interface with a port.
func Local(address string) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("courtesy: %q is no address of this machine alone: give one like 127.0.0.1:8080", address)
	}
	var d net.Dialer
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}, nil
}

// DefaultFolder is the folder for the state that the system provides for the
// user.
func DefaultFolder() (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("courtesy: no folder for the state: %w (name one)", err)
	}
	return filepath.Join(caches, stateProgram), nil
}

// Courtesy asks boards. Make it with New; the zero Courtesy is not usable.
type Courtesy struct {
	agent     string
	log       *slog.Logger
	transport *http.Transport
	guard     *guard
	lanes     *lanes
	cache     *cache
	shared    *sharing
	saver     *saver // nil: from memory
	problem   string // why it is nil although there was to be one

	keepsMu sync.Mutex
	keeps   map[string]*Keep
}

// New returns a Courtesy with what its folder has of an earlier one. The error
// is about the options: a folder that cannot be used is none.
func New(o Options) (*Courtesy, error) { return newWith(o, newDialers()) }

func newWith(o Options, d *dialers) (*Courtesy, error) {
	agent, err := agentOf(o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.CacheBytes < 0:
		return nil, fmt.Errorf("courtesy: CacheBytes is %d: give a positive number, or 0 for the default", o.CacheBytes)
	case o.CacheBytes == 0:
		o.CacheBytes = 64 << 20
	}
	c := &Courtesy{agent: agent, log: o.Log, shared: newSharing(), keeps: make(map[string]*Keep)}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.transport = newTransport(o, d)
	c.guard = &guard{next: c.transport, plain: o.Dial != nil}
	c.lanes = newLanes(&http.Client{Transport: c.guard})
	c.cache = newCache(o.CacheBytes)
	if o.Folder != "" {
		c.openState(o.Folder)
	}
	return c, nil
}

func newTransport(o Options, d *dialers) *http.Transport {
	t := &http.Transport{
		Proxy:                  d.remembering(o.Proxy),
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsCeiling,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the lane's, which limits what it unpacks to
		MaxResponseHeaderBytes: 256 << 10,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
	}
	if o.Dial != nil {
		t.Proxy, t.DialContext = nil, o.Dial
	}
	return t
}

// agentOf is the User-Agent: what asks, and where to read or complain about it.
func agentOf(o Options) (string, error) {
	version := o.Version
	if version == "" {
		version = "dev"
	}
	agent := stateProgram + "/" + version
	var about []string
	if o.Site != "" {
		about = append(about, "+"+o.Site)
	}
	if o.Contact != "" {
		about = append(about, o.Contact)
	}
	if len(about) > 0 {
		agent += " (" + strings.Join(about, "; ") + ")"
	}
	for _, r := range agent {
		if r < ' ' || r > '~' {
			return "", fmt.Errorf("courtesy: version %q, site %q, contact %q: write them in plain ASCII, they are sent in a header", o.Version, o.Site, o.Contact)
		}
	}
	return agent, nil
}

// Keep returns the Keep of that name, always the same one.
func (c *Courtesy) Keep(name string) *Keep {
	c.keepsMu.Lock()
	defer c.keepsMu.Unlock()
	k, ok := c.keeps[name]
	if !ok {
		k = newKeep(c.changed)
		c.keeps[name] = k
	}
	return k
}

// changed has the state saved soon.
func (c *Courtesy) changed() {
	if c.saver != nil {
		c.saver.wake()
	}
}

// Stats is a snapshot.
type Stats struct {
	Hosts  []lane.Stats // by name
	Cache  CacheStats
	Shared int // answers that another operation's fetch brought

	Folder  string    // "": from memory
	Problem string    // what is wrong with the folder, "" if nothing is
	Saved   time.Time // when the state was last written; zero: not yet
}

// Stats returns a snapshot.
func (c *Courtesy) Stats() Stats {
	s := Stats{Hosts: c.lanes.snapshot(), Cache: c.cache.snapshot(), Shared: c.shared.count(), Problem: c.problem}
	if c.saver != nil {
		c.saver.describe(&s)
	}
	return s
}

// Close writes the state, gives up the folder and closes idle connections. Call
// it when the operations are over; later calls do nothing.
func (c *Courtesy) Close() error {
	c.transport.CloseIdleConnections()
	if c.saver == nil {
		return nil
	}
	return c.saver.close()
}
