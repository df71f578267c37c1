//go:build unix

package local

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"layover/internal/router"
	"layover/parking"
)

func TestR11_R59_AProgramThatLivesWithoutItsSocketIsStartedAgain(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "deserter"))
	r := router.New(p, parking.NewLot(10), router.Options{})
	route := func() *router.Ride {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ride, err := r.Route(ctx, router.Ask{Actor: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return ride
	}
	first := route()
	first.Done()
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGUSR1)
	began := time.Now()
	for refused := 0; ; <-time.After(20 * time.Millisecond) {
		ride := route()
		c, err := net.Dial("tcp4", ride.Target.Addr)
		if err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			refused++
			ride.Unreachable()
		}
		ride.Done()
		if ride.Target != first.Target {
			if _, err := get(ride.Target, "/"); err != nil || refused < refusedDials || time.Since(began) < refusedFor {
				t.Errorf("restarted after %v and %d refused connections, and then: %v", time.Since(began), refused, err)
			}
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("it is still not restarted after %d refused connections", refused)
		}
	}
}

func TestAStreamThatOutlastsMaxDrainIsCutOff(t *testing.T) {
	a := acting("a", "server")
	a.MaxDrain = 100 * time.Millisecond
	p := mustPlane(t, 1, a)
	r := router.New(p, parking.NewLot(10), router.Options{})
	ride, err := r.Route(context.Background(), router.Ask{Actor: "a"})
	if err != nil {
		t.Fatal(err)
	}
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
