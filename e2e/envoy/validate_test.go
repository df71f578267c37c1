package envoy_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"

	binary "layover/e2e/envoy"
	"layover/internal/envoy"
)

// Envoy itself accepts every form of the configuration: it knows limits that
// the protocol's own rules do not have.
func TestEnvoyAcceptsEveryPlan(t *testing.T) {
	path := realEnvoy(t)
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	for name, change := range map[string]func(*envoy.Plan){
		"the default": func(*envoy.Plan) {},
		"TLS alone": func(p *envoy.Plan) {
			p.HTTP, p.HTTPS, p.Certificate, p.Key = "", "0.0.0.0:8443", cert, key
		},
		"everything": func(p *envoy.Plan) {
			p.HTTPS, p.Certificate, p.Key = "[::]:8443", cert, key
			p.Processor, p.XDS, p.Admin, p.AccessLog = "localhost:50051", "localhost:18000", "", "/dev/null"
			p.Lot, p.Budget, p.RouteTimeout, p.StreamIdle, p.TunnelIdle = 100_000, 59*time.Minute, 0, 0, 0
			p.WholeResponse = true
		},
		"no lot": func(p *envoy.Plan) { p.Lot = 0 },
	} {
		plan := envoy.DefaultPlan()
		change(&plan)
		for form, of := range map[string]func() (*bootstrapv3.Bootstrap, error){"bootstrap": plan.Bootstrap, "static": plan.Static} {
			boot, err := of()
			if err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
				continue
			}
			var text bytes.Buffer
			if err := envoy.Write(&text, boot); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "envoy.yaml")
			if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "--mode", "validate", "--log-level", "warning", "-c", file).CombinedOutput(); err != nil {
				t.Errorf("%s, %s: envoy --mode validate: %v\n%s", name, form, err, out)
			}
		}
	}
}

// realEnvoy is the path of an Envoy. It must be there in CI; elsewhere the test
// is skipped, loudly.
func realEnvoy(t *testing.T) string {
	t.Helper()
	path, err := binary.Find(context.Background())
	if errors.Is(err, binary.ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	coded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("tls.crt", "CERTIFICATE", signed), write("tls.key", "PRIVATE KEY", coded)
}
