package envoy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	binary "layover/e2e/envoy"
	"layover/internal/envoy"
)

func TestEnvoyReadsItsCertificateAgain(t *testing.T) {
	path := realEnvoy(t)
	dir, other := t.TempDir(), t.TempDir()
	ports := listen(t, 3)
	plan := envoy.DefaultPlan()
	plan.XDS, plan.HTTP, plan.HTTPS, plan.Admin = ports[0].Addr().String(), "", ports[1].Addr().String(), ports[2].Addr().String()
	plan.Certificate, plan.Key = selfSigned(t, dir)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := envoy.NewServer(ctx, plan, func(_, _, reason string) { t.Log("refused:", reason) })
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	server.Register(g)
	go g.Serve(ports[0])
	defer g.Stop()
	boot, err := plan.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := envoy.Write(&text, boot); err != nil {
		t.Fatal(err)
	}
	ports[1].Close()
	ports[2].Close()
	e, err := binary.Start(ctx, path, text.String(), plan.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()

	first := certificateOf(t, ctx, plan.HTTPS)
	cert, key := selfSigned(t, other)
	for from, to := range map[string]string{cert: plan.Certificate, key: plan.Key} {
		aside := filepath.Join(dir, "new")
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(aside, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, to); err != nil {
			t.Fatal(err)
		}
	}
	for bytes.Equal(certificateOf(t, ctx, plan.HTTPS), first) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the certificate stays\n%s", e.Log())
		}
	}
}

// listen returns listeners on n different ports.
func listen(t *testing.T, n int) []net.Listener {
	t.Helper()
	var all []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		all = append(all, l)
	}
	return all
}

func certificateOf(t *testing.T, ctx context.Context, addr string) []byte {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}
