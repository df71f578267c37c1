//go:build linux

package local

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"layover/internal/router"
	"layover/parking"
)

// BenchmarkWake measures what the plane adds to the start of a program that
// listens 10 ms after it was started: the whole of Route for a sleeping actor,
// less what it takes to start the same program bare and to connect to it
// without a pause between tries (which costs the program time on a machine of
// few cores, so that less than nothing may be added). Both are taken in turn.
// Noticed is the time from the program's readiness, by its own clock, to the
// return of Route.
func BenchmarkWake(b *testing.B) {
	for _, kind := range []struct{ ready, program string }{
		{ReadyConnect, "slow server"}, {ReadyHTTP, "slow server"}, {ReadyNotify, "slow notifier"}, {ReadySocket, "slow heir"},
	} {
		b.Run(kind.ready, func(b *testing.B) {
			a := acting("a", kind.program)
			a.Ready.Kind = kind.ready
			p, err := New(Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{a}}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Stop(context.Background())
			r := router.New(p, parking.NewLot(1), router.Options{})
			var woken, bare, noticed []time.Duration
			for b.Loop() {
				began := time.Now()
				ride, err := r.Route(context.Background(), router.Ask{Actor: "a"})
				if err != nil {
					b.Fatal(err)
				}
				end := time.Now()
				woken = append(woken, end.Sub(began))
				since, err := get(ride.Target, "/since")
				if err != nil {
					b.Fatal(err)
				}
				ns, err := strconv.ParseInt(since, 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				noticed = append(noticed, time.Duration(end.UnixNano()-ns))
				ride.Done()
				if err := p.Sleep(context.Background(), "a"); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, startBare(b))
			}
			slices.Sort(woken)
			slices.Sort(noticed)
			slices.Sort(bare)
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			at := func(q float64) int { return int(q * float64(len(bare)-1)) }
			b.ReportMetric(ms(bare[at(.5)]), "bare-p50-ms")
			b.ReportMetric(ms(woken[at(.5)]-bare[at(.5)]), "added-p50-ms")
			b.ReportMetric(ms(woken[at(.99)]-bare[at(.99)]), "added-p99-ms")
			b.ReportMetric(ms(noticed[at(.5)]), "noticed-p50-ms")
			b.ReportMetric(ms(noticed[at(.99)]), "noticed-p99-ms")
			b.ReportMetric(float64(woken[at(.5)])/float64(bare[at(.5)]), "ratio-p50")
		})
	}
}

func startBare(b *testing.B) time.Duration {
	const addr = "127.0.0.1:9871"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), actAs+"=slow server", "PORT=9871")
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for {
		c, err := net.Dial("tcp4", addr)
		if err == nil {
			c.Close()
			return time.Since(began)
		}
		runtime.Gosched()
	}
}

// BenchmarkWarm measures a request to an awake actor: what the plane costs
// where nobody waits.
func BenchmarkWarm(b *testing.B) {
	s := newBenchPlane(b)
	use, err := s.Want("a")
	if err != nil {
		b.Fatal(err)
	}
	defer use.Done()
	warm := func() {
		use, err := s.Want("a")
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := use.Awake(); !ok {
			b.Fatal("not awake")
		}
		use.Done()
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			warm()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				warm()
			}
		})
	})
}

func newBenchPlane(b *testing.B) *Plane {
	p, err := New(Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{acting("a", "server")}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Stop(context.Background()) })
	ride, err := router.New(p, parking.NewLot(1), router.Options{}).Route(context.Background(), router.Ask{Actor: "a"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ride.Done)
	return p
}

func BenchmarkSnapshotOfTenThousandActors(b *testing.B) {
	p := newPlane(&fakeHost{}, slog.New(slog.DiscardHandler))
	c := Config{Pools: []Pool{{Name: "pool", Workers: 1}}}
	for i := range 10_000 {
		c.Actors = append(c.Actors, fake(fmt.Sprintf("a%05d", i)))
	}
	if _, err := p.Apply(c); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Snapshot()
	}
}
