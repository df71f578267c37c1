package lane

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"layover/budget"
	"layover/turnstile"
)

// TestWhateverTheHostDoesTheOperationsTimeIsKept lets many operations with budgets of all lengths ask a host that misbehaves in
// all the ways we know, at random, and checks what must hold in every case.
func TestWhateverTheHostDoesTheOperationsTimeIsKept(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		faults(t, seed+uint64(round))
		if t.Failed() {
			t.Fatalf("seed %d", seed+uint64(round))
		}
	}
}

func faults(t *testing.T, seed uint64) {
	bubble(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		var mu sync.Mutex // guards random, started
		var started []time.Time
		upTo := func(d time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(d)) + 1)
		}
		oneOf := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}

		interval := []time.Duration{0, time.Second / 64, time.Second / 4}[oneOf(3)] // of a rate that floats hold exactly
		o := Options{Concurrency: 1 + oneOf(4), Attempts: 1 + oneOf(5), Retries: 1 + oneOf(20), MinUseful: upTo(20 * time.Millisecond), MaxPause: upTo(20 * time.Second)}
		if interval > 0 {
			o.Rate = rate.Every(interval)
		}
		var l *Lane
		wait := func(ctx context.Context, d time.Duration) error { // of a transport that heeds its context
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		o.Client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			now, ctx := time.Now(), r.Context()
			mu.Lock()
			started = append(started, now)
			mu.Unlock()
			end, _ := ctx.Deadline()
			if left := end.Sub(now); left <= l.o.MinUseful {
				t.Errorf("an attempt began with %v left, with less than %v it is of no use", left, l.o.MinUseful)
			}
			l.mu.Lock()
			if p := l.paused; now.Before(p.until) && now.After(p.since) {
				t.Errorf("an attempt began in a pause, %v after its begin and %v before its end", now.Sub(p.since), p.until.Sub(now))
			}
			if l.stats.InFlight > l.o.Concurrency {
				t.Errorf("%d attempts in flight, want at most %d", l.stats.InFlight, l.o.Concurrency)
			}
			l.mu.Unlock()
			if err := wait(ctx, upTo(300*time.Millisecond)); err != nil {
				return nil, err
			}
			switch oneOf(12) {
			case 0:
				return nil, errReset
			case 1:
				return nil, errDial
			case 2:
				<-ctx.Done()
				return nil, ctx.Err()
			case 3:
				a := answer(r, 200, "")
				a.Body = io.NopCloser(io.MultiReader(strings.NewReader("a beginning"), broken{}))
				return a, nil
			case 4:
				a := answer(r, 200, "")
				a.Body = io.NopCloser(stall{ctx})
				return a, nil
			case 5:
				return answer(r, 404, "no"), nil
			case 6, 7:
				hint := []string{"", "0", "-1", "1", "0.05", "7", "3600", strings.Repeat("9", 40), "soon"}[oneOf(9)]
				status := []int{429, 503, 500, 502}[oneOf(4)]
				return answer(r, status, "busy", "Retry-After", hint), nil
			}
			return answer(r, 200, "good"), nil
		})}
		l = newLane(t, o)

		var all sync.WaitGroup
		allowed := make([]int, 30)
		sent := make([]int, 30)
		for i := range allowed {
			length, late := upTo(8*time.Second), upTo(3*time.Second)
			band, leaves := oneOf(3), oneOf(4) == 0
			allowed[i] = 1 + oneOf(12)
			all.Go(func() {
				time.Sleep(late)
				ctx, cancel := budget.For(turnstile.Begin(context.Background(), band), length)
				defer cancel()
				ctx = Allow(ctx, allowed[i], 3)
				if leaves {
					time.AfterFunc(upTo(length), cancel)
				}
				begin := time.Now()
				for range 3 {
					method := []string{"GET", "POST"}[oneOf(2)]
					got, err := l.Do(ctx, Request{Method: method, URL: page})
					checkOutcome(t, ctx, got, err)
					if err == nil {
						sent[i] += got.Attempts
						continue
					}
					var e *Error
					if errors.As(err, &e) {
						sent[i] += e.Attempts
					}
				}
				if took := time.Since(begin); took > length {
					t.Errorf("an operation of %v took %v", length, took)
				}
				for _, entry := range budget.From(ctx).Ledger().Phases {
					if (entry.Name == "retry" || entry.Name == "pause") && entry.Last >= length {
						t.Errorf("a wait in %q reached the end: %v", entry.Name, budget.From(ctx).Ledger())
					}
				}
				if a := allowanceOf(ctx); a.attempts != allowed[i]-sent[i] {
					t.Errorf("%d attempts left of %d after %d", a.attempts, allowed[i], sent[i])
				}
			})
		}
		all.Wait()
		idle(t, l)

		total := 0
		for _, n := range sent {
			total += n
		}
		s := l.Stats()
		if total != len(started) || s.Attempts != uint64(total) {
			t.Errorf("%d attempts by the callers, %d by the transport, %d by Stats; want the same", total, len(started), s.Attempts)
		}
		if s.Allowance < -1e-9 || s.Allowance > float64(l.o.Retries) || math.IsNaN(s.Allowance) {
			t.Errorf("the allowance is %v, want 0 to %d", s.Allowance, l.o.Retries)
		}
		for i := 1; i < len(started); i++ {
			if gap := started[i].Sub(started[i-1]); gap < interval-time.Microsecond {
				t.Errorf("two attempts began %v apart, want at least %v", gap, interval)
			}
		}
		for range 2 { // nothing is owed to anybody: after the pause a new operation is served as in a new lane
			time.Sleep(25 * time.Second)
			if l.isPaused() || l.pace.Tokens() < 1 {
				t.Errorf("25s later the lane is paused for %v and the pace has %v", l.pauseLeft(), l.pace.Tokens())
			}
		}
	})
}

// checkOutcome checks that an outcome says what it must.
func checkOutcome(t *testing.T, ctx context.Context, got *Response, err error) {
	t.Helper()
	if err == nil {
		if got.Status != 200 || string(got.Body) != "good" {
			t.Errorf("Do = %+v without an error", got)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Response != got || e.Err == nil && e.Last == nil || err.Error() == "" {
		t.Errorf("Do = %+v, %#v", got, err)
		return
	}
	timeIsUp := errors.Is(e.Err, context.DeadlineExceeded)
	switch {
	case e.Stop == Deadline && (!timeIsUp || ctx.Err() == context.Canceled),
		e.Stop == Cancelled && ctx.Err() != context.Canceled,
		e.Stop == RateLimited && !timeIsUp && e.Status() != 429,
		e.Stop == Failed && (timeIsUp || e.Status() == 429 && e.Last == error(statusError(429))),
		e.Stop == Done, e.Stop == Enough, e.Stop == SourceCap:
		t.Errorf("Do ended for the reason %q with %v (%v)", e.Stop, err, context.Cause(ctx))
	}
}

// stall is a body that never comes, of a transport that heeds its context.
type stall struct{ ctx context.Context }

func (s stall) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
