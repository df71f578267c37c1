package substrate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Access is how the control plane is reached.
type Access struct {
	// CAFile holds the certificates, in PEM, that may sign the control plane's.
	// It is read again for each connection. Default: the system's.
	CAFile string
	// TokenFile holds the bearer token that goes with each call. It is read
	// again when it has changed. Default: no token.
	TokenFile string
	// ServerName is the name that the control plane's certificate must have.
	// Default: the address's host.
	ServerName string
	// Insecure uses no TLS, and the other fields must be empty, but for
	// TokenFile: whoever asks for both sends the token in the clear.
	Insecure bool
}

// Limits of what files may hold.
const (
	maxCA    = 1 << 20
	maxToken = 64 << 10
)

// Dial returns a connection to the control plane at address, host:port or a
// gRPC target. It connects with the first call, and again by itself, at most
// 2 s after the control plane came back. The error names the file or setting
// that is wrong.
func Dial(address string, a Access, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	transport, err := a.transport()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(), // what is tried again is the plane's to say
		grpc.WithContextDialer(dial),
		// gRPC's own back-off would grow to two minutes; a parked request has seconds.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A server that was not told otherwise closes connections whose pings come
		// more often than every five minutes, and with them the calls on it. So
		// these only bound how long sent bytes may go unacknowledged (Timeout, as
		// TCP_USER_TIMEOUT on Linux); a silent peer is found by TCP's own probes,
		// see dial.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5*time.Minute + time.Second, Timeout: 20 * time.Second}),
	}
	if a.TokenFile != "" {
		token := &tokenFile{path: a.TokenFile, insecure: a.Insecure}
		if _, err := token.read(); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	conn, err := grpc.NewClient(address, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("substrate: the control plane's address %q: %w", address, err)
	}
	return conn, nil
}

// dial finds a peer that is gone within 30 s, also while nothing is sent.
func dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	return d.DialContext(ctx, network, address)
}

func (a Access) transport() (credentials.TransportCredentials, error) {
	if a.Insecure {
		if a.CAFile != "" || a.ServerName != "" {
			return nil, errors.New("substrate: a CA file or a server name makes no sense without TLS: take them or insecure away")
		}
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{ServerName: a.ServerName, MinVersion: tls.VersionTLS12}
	if a.CAFile == "" {
		return credentials.NewTLS(config), nil
	}
	ca := &caFile{TransportCredentials: credentials.NewTLS(config), path: a.CAFile, config: config}
	return ca, ca.read()
}

// caFile is TLS with certificates in a file that others write.
type caFile struct {
	credentials.TransportCredentials // of config alone; for what is no handshake
	path                             string
	config                           *tls.Config
	last                             atomic.Pointer[x509.CertPool] // what read found when it last found any
}

func (c *caFile) read() error {
	pem, err := readLimited(c.path, maxCA)
	if err != nil {
		return fmt.Errorf("substrate: the control plane's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("substrate: the control plane's CA: %s has no certificate in PEM", c.path)
	}
	c.last.Store(pool)
	return nil
}

// ClientHandshake implements credentials.TransportCredentials. While the file
// cannot be read, as in the midst of being replaced, the last one is good.
func (c *caFile) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	_ = c.read()
	config := c.config.Clone()
	config.RootCAs = c.last.Load()
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials. The clone is c: it cannot
// be changed but by its deprecated OverrideServerName, which nobody calls.
func (c *caFile) Clone() credentials.TransportCredentials { return c }

func readLimited(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// tokenFile is a bearer token in a file that others write. Its text is in no
// error and no log.
type tokenFile struct {
	path     string
	insecure bool

	mu    sync.Mutex
	of    os.FileInfo // the file that token was read from; nil: none yet
	token string
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := t.read()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t *tokenFile) RequireTransportSecurity() bool { return !t.insecure }

// read returns the token. While the file cannot be read, as in the midst of
// being replaced, the last one is good.
func (t *tokenFile) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err == nil && t.of != nil && os.SameFile(info, t.of) && info.ModTime().Equal(t.of.ModTime()) && info.Size() == t.of.Size() {
		return t.token, nil
	}
	var token string
	if err == nil {
		token, err = readToken(t.path)
	}
	switch {
	case err == nil:
		t.of, t.token = info, token
	case t.of == nil:
		return "", fmt.Errorf("substrate: the control plane's token: %w", err)
	}
	return t.token, nil
}

func readToken(path string) (string, error) {
	text, err := readLimited(path, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c > '~' {
			return "", fmt.Errorf("%s has a character in it that no token has", path)
		}
	}
	return token, nil
}
