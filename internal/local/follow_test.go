package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

// burst makes each program of actor "a" print so many lines in the moment it
// begins to serve.
type burst struct {
	program
	out ring
}

func (b *burst) output(n int) []string                { return b.out.tail(n) }
func (b *burst) since(line uint64) ([]string, uint64) { return b.out.since(line) }

// bursting is a host whose programs print so many lines each as soon as they
// run, and nothing after.
type bursting struct {
	host
	lines int
}

func (h bursting) start(j job) (program, error) {
	pr, err := h.host.start(j)
	b := &burst{program: pr}
	for i := range h.lines {
		fmt.Fprintf(&b.out, "wake %d line %d\n", j.wake, i)
	}
	return b, err
}

// followed follows actor "a" and returns what was printed for it so far.
func (s *stage) followed(t *testing.T) (lines *[]string, end context.CancelFunc) {
	ctx, end := context.WithCancel(t.Context())
	lines = new([]string)
	go s.plane.Follow(ctx, "a", router.Position{}, func(more []string) error {
		*lines = append(*lines, more...)
		return nil
	})
	synctest.Wait()
	return lines, end
}

// live has "a" awake for an instant, between two looks of a follower.
func (s *stage) live(t *testing.T) {
	t.Helper()
	s.ride("a", time.Second).Done()
	if err := s.plane.Sleep(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

func TestAFollowerLosesNothingAtTheEndOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const printed = 1000
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.plane.host = bursting{s.plane.host, printed}
		lines, end := s.followed(t)
		defer end()
		s.live(t)
		s.live(t)
		time.Sleep(followEvery)
		synctest.Wait()
		var want []string
		for wake := range 2 {
			for i := range printed {
				want = append(want, fmt.Sprintf("wake %d line %d", wake+1, i))
			}
		}
		if !slices.Equal(*lines, want) {
			t.Errorf("%d lines were followed, want %d: %q ...", len(*lines), len(want), (*lines)[:min(3, len(*lines))])
		}
	})
}

func TestAFollowerIsToldWhatWasNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.plane.host = bursting{s.plane.host, keptLines + 7}
		lines, end := s.followed(t)
		defer end()
		s.live(t)
		time.Sleep(followEvery)
		synctest.Wait()
		if len(*lines) != keptLines+1 || (*lines)[0] != "(7 lines that came before these were not kept)" || (*lines)[1] != "wake 1 line 7" {
			t.Errorf("%d lines, begin with %q", len(*lines), (*lines)[:min(2, len(*lines))])
		}
	})
}

func TestMoreOfAnEndedLifeIsKeptThanIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"))
		defer s.close()
		s.plane.host = bursting{s.plane.host, 1000}
		s.live(t)
		lines, _, err := s.plane.Output("a", router.Position{})
		if err != nil || len(lines) != wordsLines || lines[wordsLines-1] != "wake 1 line 999" {
			t.Errorf("%d lines, %v; want the last %d", len(lines), err, wordsLines)
		}
		if out := s.plane.Snapshot().Actors[0].Output; len(out) != shownLines || out[shownLines-1] != "wake 1 line 999" {
			t.Errorf("shown are %d lines: %q", len(out), out)
		}
	})
}

func TestAnInstanceIsFollowedFromAPositionOfAnotherRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("x-*"))
		defer s.close()
		s.plane.host = bursting{s.plane.host, 2}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var lines []string
		go s.plane.Follow(ctx, "x-1", router.Position{Wake: 1, Line: 100}, func(more []string) error {
			lines = append(lines, more...)
			return nil
		})
		synctest.Wait()
		s.ride("x-1", 0).Done()
		time.Sleep(followEvery)
		synctest.Wait()
		if want := []string{"wake 1 line 0", "wake 1 line 1"}; !slices.Equal(lines, want) {
			t.Errorf("its first wake-up is followed by %q, want %q", lines, want)
		}
	})
}

func TestFollowingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		quiet := func([]string) error { return nil }
		if err := s.plane.Follow(t.Context(), "none", router.Position{}, quiet); err == nil || !strings.Contains(err.Error(), "no actor") {
			t.Errorf("of an unknown actor: %v", err)
		}
		full := errors.New("full")
		if err := s.plane.Follow(t.Context(), "a", router.Position{}, func([]string) error { return full }); err != full {
			t.Errorf("when it cannot be printed: %v, want %v", err, full)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(full)
		if err := s.plane.Follow(ctx, "a", router.Position{}, quiet); err != full {
			t.Errorf("when it is told to: %v, want %v", err, full)
		}
		removed := make(chan error)
		go func() { removed <- s.plane.Follow(t.Context(), "a", router.Position{}, quiet) }()
		synctest.Wait()
		s.apply(Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{fake("b")}})
		if err := <-removed; err == nil || !strings.Contains(err.Error(), "no actor") {
			t.Errorf("of a removed actor: %v", err)
		}
		if len(s.plane.followers) != 0 {
			t.Errorf("%d are left", len(s.plane.followers))
		}
	})
}
