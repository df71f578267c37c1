//go:build linux

package local

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

func TestAStreamThatOutlastsMaxDrainIsCutOff(t *testing.T) {
	a := acting("a", "server")
	a.MaxDrain = 100 * time.Millisecond
	p := mustPlane(t, 1, a)
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	resp, err := http.Get("http://" + ride.Target.Addr + "/hang")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	if err := p.Sleep(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < a.MaxDrain {
		t.Errorf("it slept after %v under a request, want %v at least", took, a.MaxDrain)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
}
