package substrate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"layover/internal/substrate"
	"layover/internal/substrate/ateapi"
	"layover/internal/substrate/controlplane"
)

// certificate returns a certificate for name that signs itself, and its PEM.
func certificate(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, write(t, "ca.pem", string(text))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func dial(t *testing.T, address string, a substrate.Access) *grpc.ClientConn {
	t.Helper()
	conn, err := substrate.Dial(address, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// getActor asks for an actor over conn.
func getActor(conn *grpc.ClientConn) func(...grpc.CallOption) error {
	return func(o ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := ateapi.NewControlClient(conn).GetActor(ctx, &ateapi.GetActorRequest{Actor: &ateapi.ObjectRef{Atespace: "demo", Name: "a"}}, o...)
		return err
	}
}

func start(t *testing.T, s *controlplane.Server) string {
	t.Helper()
	address, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return address
}

func TestTheConnectionIsSecuredByTheCAAndTheServersName(t *testing.T) {
	s := newServer(1, 1, 0)
	cert, ca := certificate(t, "ateapi.test")
	_, otherCA := certificate(t, "ateapi.test")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	address := start(t, s)
	if err := getActor(dial(t, address, substrate.Access{CAFile: ca, ServerName: "ateapi.test"}))(); err != nil {
		t.Errorf("with its CA and name: %v", err)
	}
	for name, a := range map[string]substrate.Access{
		"another CA":      {CAFile: otherCA, ServerName: "ateapi.test"},
		"the system's CA": {ServerName: "ateapi.test"},
		"another name":    {CAFile: ca, ServerName: "other.test"},
		"no TLS":          {Insecure: true},
	} {
		if err := getActor(dial(t, address, a))(); status.Code(err) != codes.Unavailable {
			t.Errorf("with %s: %v, want Unavailable", name, err)
		}
	}
}

func TestTheCAIsReadAgainForEachConnection(t *testing.T) {
	s := newServer(1, 1, 0)
	cert, ca := certificate(t, "ateapi.test")
	_, old := certificate(t, "ateapi.test")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	address := start(t, s)
	conn := dial(t, address, substrate.Access{CAFile: old, ServerName: "ateapi.test"})
	get := getActor(conn)
	if err := get(); status.Code(err) != codes.Unavailable {
		t.Errorf("with the old CA: %v, want Unavailable", err)
	}
	if err := os.Rename(ca, old); err != nil {
		t.Fatal(err)
	}
	if err := get(grpc.WaitForReady(true)); err != nil {
		t.Errorf("with the new CA: %v", err)
	}
	s.Stop()
	// A call on the connection that has just died would fail with it.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Fatal("the connection outlives its server")
	}
	if err := os.WriteFile(old, []byte("half a certifi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(address); err != nil {
		t.Fatal(err)
	}
	if err := get(grpc.WaitForReady(true)); err != nil {
		t.Errorf("while the file is written: %v", err)
	}
}

func TestTheTokenIsReadAgainWhenItsFileHasChanged(t *testing.T) {
	s := newServer(1, 1, 0)
	s.Token = "first"
	address := start(t, s)
	path := write(t, "token", "first\n")
	get := getActor(dial(t, address, substrate.Access{Insecure: true, TokenFile: path}))
	if err := get(); err != nil {
		t.Fatal(err)
	}
	replace := func(text string) { // as kubelet does
		t.Helper()
		if err := os.Rename(write(t, "new", text), path); err != nil {
			t.Fatal(err)
		}
	}
	replace("second")
	if err := get(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with the new token: %v, want Unauthenticated", err)
	}
	replace("first")
	for _, spoil := range []func(){func() {}, func() { replace("") }, func() { os.Remove(path) }} {
		spoil()
		if err := get(); err != nil {
			t.Errorf("with a token that was good: %v", err)
		}
	}
}

func TestTheTokenGoesOverTLS(t *testing.T) {
	cert, ca := certificate(t, "ateapi.test")
	s := newServer(1, 1, 0)
	s.Token, s.TLS = "secret", &tls.Config{Certificates: []tls.Certificate{cert}}
	path := write(t, "token", "secret")
	if err := getActor(dial(t, start(t, s), substrate.Access{CAFile: ca, ServerName: "ateapi.test", TokenFile: path}))(); err != nil {
		t.Error(err)
	}
}

func TestDialSaysWhichSettingIsWrong(t *testing.T) {
	_, ca := certificate(t, "ateapi.test")
	for _, c := range []struct {
		address string
		a       substrate.Access
		want    string
	}{
		{"x:1", substrate.Access{CAFile: "/nowhere/ca.pem"}, "/nowhere/ca.pem"},
		{"x:1", substrate.Access{CAFile: write(t, "ca.pem", "hello")}, "no certificate in PEM"},
		{"x:1", substrate.Access{CAFile: write(t, "ca.pem", strings.Repeat("x", 1<<20+1))}, "more than 1048576 bytes"},
		{"x:1", substrate.Access{TokenFile: "/nowhere/token"}, "/nowhere/token"},
		{"x:1", substrate.Access{TokenFile: write(t, "token", " \n")}, "is empty"},
		{"x:1", substrate.Access{TokenFile: write(t, "token", "se cret")}, "a character in it"},
		{"x:1", substrate.Access{Insecure: true, CAFile: ca}, "insecure"},
		{"x:1", substrate.Access{Insecure: true, ServerName: "x"}, "insecure"},
		{"dns:///%zz", substrate.Access{}, "dns:///%zz"},
	} {
		conn, err := substrate.Dial(c.address, c.a)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("Dial(%s, %+v) = %v, want an error with %q", c.address, c.a, err, c.want)
		}
	}
}
