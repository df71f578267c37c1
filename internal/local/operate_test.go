package local

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

func TestAPoolIsResizedWithoutAConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		ride := s.ride("a", time.Second)
		waits := s.ask("b", time.Minute)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if err := s.plane.Resize("pool", 2); err != nil {
			t.Fatal(err)
		}
		got := <-waits
		if got.err != nil || got.took != 3*time.Second {
			t.Errorf("who waited for a worker: %v after %v, want a ride after 3s", got.err, got.took)
		}
		got.ride.Done()
		ride.Done()
		if pool := s.plane.Snapshot().Pools[0]; pool.Workers != 2 || pool.Used != 2 {
			t.Errorf("%+v", pool)
		}
		if err := s.plane.Resize("pool", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		if pool := s.plane.Snapshot().Pools[0]; pool.Workers != 1 || pool.Used != 1 {
			t.Errorf("after it shrank: %+v", pool)
		}
		s.apply(Config{Pools: []Pool{{Name: "pool", Workers: 3}}, Actors: []Actor{fake("a"), fake("b")}})
		if pool := s.plane.Snapshot().Pools[0]; pool.Workers != 3 {
			t.Errorf("after a reload: %+v", pool)
		}
	})
}

func TestAPoolIsNotResizedToNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := fake("kept")
		kept.KeepAwake.Always = true
		other := kept
		other.Name = "other"
		s := newStage(t, 3, kept, other)
		defer s.close()
		for _, test := range []struct {
			pool    string
			workers int
			says    string
		}{{"pool", 0, "from 1 to 100000"}, {"pool", -1, "from 1"}, {"pool", 1 << 30, "from 1"}, {"none", 2, "no pool"}, {"pool", 1, "keeps 2 actors awake"}} {
			if err := s.plane.Resize(test.pool, test.workers); err == nil || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("Resize(%q, %d): %v, want %q", test.pool, test.workers, err, test.says)
			}
		}
		synctest.Wait()
	})
}

func TestOnlyKnownActorsArePutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("t-*"))
		defer s.close()
		for name, known := range map[string]bool{"a": true, "t-1": true, "none": false} {
			if err := s.plane.Sleep(t.Context(), name); (err == nil) != known {
				t.Errorf("Sleep(%q): %v", name, err)
			}
		}
	})
}

func TestOutputGoesOnAcrossWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		var at router.Position
		read := func(want string) {
			t.Helper()
			lines, next, err := s.plane.Output("a", at)
			if got := strings.Join(lines, "|"); err != nil || got != want {
				t.Errorf("output %q, %v; want %q", got, err, want)
			}
			at = next
		}
		read("")
		s.ride("a", time.Second).Done()
		read("words of a")
		read("")
		if err := s.plane.Sleep(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		read("")
		s.ride("a", time.Second).Done()
		read("words of a")
		if _, _, err := s.plane.Output("none", at); err == nil {
			t.Error("an unknown actor has output")
		}
	})
}

func TestARingTellsWhatCameSince(t *testing.T) {
	var r ring
	fmt.Fprint(&r, "one\ntwo\nthr")
	check := func(from uint64, want string, ended uint64) {
		t.Helper()
		lines, n := r.since(from)
		if got := strings.Join(lines, "|"); got != want || n != ended {
			t.Errorf("since(%d) = %q, %d; want %q, %d", from, got, n, want, ended)
		}
	}
	check(0, "one|two", 2)
	check(2, "", 2)
	fmt.Fprint(&r, "ee\nfour")
	check(2, "three", 3)
	r.finish()
	check(2, "three|four", 4)
	check(9, "", 4)
	for i := range 2 * keptLines {
		fmt.Fprintln(&r, i)
	}
	if lines, n := r.since(3); len(lines) != keptLines || n != 4+2*keptLines {
		t.Errorf("since(3) has %d lines of %d", len(lines), n)
	}
}
