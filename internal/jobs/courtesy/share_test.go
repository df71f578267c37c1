package courtesy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
	"layover/internal/jobs/board"
)

// caller is one operation that fetches jobsURL.
type caller struct {
	cancel context.CancelFunc
	took   time.Duration
	answer board.Answer
	err    error
	done   chan struct{}
	ledger budget.Ledger
}

func call(c *Courtesy, d time.Duration) *caller {
	ctx, cancel := within(d)
	u := &caller{cancel: cancel, done: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(u.done)
		defer cancel()
		u.answer, u.err = c.Fetch(acme())(ctx, board.Request{URL: jobsURL})
		u.took, u.ledger = time.Since(began), budget.From(ctx).Ledger()
	}()
	synctest.Wait()
	return u
}

func (u *caller) want(t *testing.T, name string, took time.Duration, v board.Verdict) {
	t.Helper()
	<-u.done
	got := board.OK
	if trouble := troubleOf(u.err); trouble != nil {
		got = trouble.Verdict
	}
	if got != v || u.took != took {
		t.Errorf("%s: %s after %v (%v), want %s after %v", name, got, u.took, u.err, v, took)
	}
}

// slowly answers after d, unless the asker leaves before.
func slowly(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			w.Write([]byte("one"))
		case <-r.Context().Done():
		}
	}
}

func TestEqualRequestsShareOneFetch(t *testing.T) {
	synctest.Test(t, on(slowly(10*time.Second), func(t *testing.T, p *play, c *Courtesy) {
		first := call(c, time.Minute)
		during(4 * time.Second)
		second := call(c, time.Minute)
		first.want(t, "the leader", 10*time.Second, board.OK)
		second.want(t, "the joiner", 6*time.Second, board.OK)
		if string(second.answer.Body) != "one" {
			t.Errorf("the joiner got %q", second.answer.Body)
		}
		p.wantAts(0)
		if n := c.Stats().Shared; n != 1 {
			t.Errorf("%d shared, want 1", n)
		}
		if l := second.ledger.String(); !strings.Contains(l, "shared 6s") {
			t.Errorf("the joiner's ledger is %q, want 6s of it shared", l)
		}
	}))
}

func TestAFailureIsSharedToo(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		slowly(time.Second)(httpDiscard{w}, r)
		w.WriteHeader(404)
	}, func(t *testing.T, p *play, c *Courtesy) {
		first, second := call(c, time.Minute), call(c, time.Minute)
		first.want(t, "the leader", time.Second, board.UnknownBoard)
		second.want(t, "the joiner", time.Second, board.UnknownBoard)
		if troubleOf(first.err) == troubleOf(second.err) {
			t.Error("both have the same Trouble, want one each: adapters write to it")
		}
		p.wantAts(0)
	}))
}

// httpDiscard is a ResponseWriter that writes nothing.
type httpDiscard struct{ http.ResponseWriter }

func (httpDiscard) Write(b []byte) (int, error) { return len(b), nil }

// The fetch is on its leader's budget. When that ends the next one asks anew,
// on its own, and nobody else is hurt.
func TestTheNextJoinerLeadsWhenTheLeadersBudgetEnds(t *testing.T) {
	synctest.Test(t, on(slowly(10*time.Second), func(t *testing.T, p *play, c *Courtesy) {
		first := call(c, 4*time.Second)
		second := call(c, time.Minute)
		third := call(c, time.Minute)
		first.want(t, "the first", 4*time.Second, board.Deadline)
		second.want(t, "the second", 14*time.Second, board.OK)
		third.want(t, "the third", 14*time.Second, board.OK)
		p.wantAts(0, 4*time.Second)
	}))
}

func TestTheNextJoinerLeadsWhenTheLeaderIsCancelled(t *testing.T) {
	synctest.Test(t, on(slowly(10*time.Second), func(t *testing.T, p *play, c *Courtesy) {
		first, second, third := call(c, time.Minute), call(c, time.Minute), call(c, time.Minute)
		during(3 * time.Second)
		first.cancel()
		first.want(t, "the first", 3*time.Second, board.Cancelled)
		during(3 * time.Second)
		second.cancel()
		second.want(t, "the second", 6*time.Second, board.Cancelled)
		third.want(t, "the third", 16*time.Second, board.OK)
		p.wantAts(0, 3*time.Second, 6*time.Second)
	}))
}

func TestAJoinerLeavesAtItsOwnEndAndHurtsNobody(t *testing.T) {
	synctest.Test(t, on(slowly(10*time.Second), func(t *testing.T, p *play, c *Courtesy) {
		first, second, third := call(c, time.Minute), call(c, 2*time.Second), call(c, time.Minute)
		during(time.Second)
		third.cancel()
		third.want(t, "the third", time.Second, board.Cancelled)
		second.want(t, "the second", 2*time.Second, board.Deadline)
		first.want(t, "the first", 10*time.Second, board.OK)
		p.wantAts(0)
	}))
}

// Who has no longer time than a pause needs is told at once; who has it waits,
// and only one asks.
func TestAPauseTooLongForTheLeaderIsWaitedOutByWhoHasTheTime(t *testing.T) {
	synctest.Test(t, on(func() http.HandlerFunc {
		asked := 0
		return func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				time.Sleep(time.Second)
				status(w, 429, "Retry-After", "30")
				return
			}
			w.Write([]byte("one"))
		}
	}(), func(t *testing.T, p *play, c *Courtesy) {
		leader, poor, rich, other := call(c, 10*time.Second), call(c, 20*time.Second), call(c, time.Minute), call(c, time.Minute)
		leader.want(t, "the leader", time.Second, board.RateLimited)
		poor.want(t, "the one with 20s", time.Second, board.RateLimited)
		rich.want(t, "the first with a minute", 31*time.Second, board.OK)
		other.want(t, "the second with a minute", 31*time.Second, board.OK)
		p.wantAts(0, 31*time.Second)
	}))
	// A hint with another status does not pause the host, and is heeded all the
	// same: the one with 20s is not to ask before its time.
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		status(w, 502, "Retry-After", "30")
	}, func(t *testing.T, p *play, c *Courtesy) {
		leader, poor := call(c, 10*time.Second), call(c, 20*time.Second)
		leader.want(t, "the leader", time.Second, board.Unavailable)
		poor.want(t, "the one with 20s", time.Second, board.Unavailable)
		p.wantAts(0)
	}))
}

// A sick host is not asked once by each who waits: only who has more time than
// the one whose repeats no longer fitted asks again.
func TestAnErrorThatMoreTimeMightMendIsPassedToWhoHasMore(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second)
		w.WriteHeader(502)
	}, func(t *testing.T, p *play, c *Courtesy) {
		// The leader's back-off, 250 ms at least, no longer fits after a second.
		leader, same, less := call(c, 1100*time.Millisecond), call(c, 1100*time.Millisecond), call(c, 1050*time.Millisecond)
		leader.want(t, "the leader", time.Second, board.Unavailable)
		same.want(t, "the one with as much time", time.Second, board.Unavailable)
		less.want(t, "the one with less", time.Second, board.Unavailable)
		p.wantAts(0)
	}))
}

func TestAPanicOfTheLeaderIsNotTheJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing()
		ctx, cancel := within(time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if v := recover(); v != "broken" {
					t.Errorf("the leader recovered %v, want its own panic", v)
				}
			}()
			s.do(ctx, "k", func(context.Context) (board.Answer, error) {
				time.Sleep(time.Second)
				panic("broken")
			})
		})
		synctest.Wait()
		wg.Go(func() {
			a, err := s.do(ctx, "k", func(context.Context) (board.Answer, error) { return board.Answer{Status: 200}, nil })
			if err != nil || a.Status != 200 {
				t.Errorf("the joiner got %v, %v; want its own answer", a, err)
			}
		})
		wg.Wait()
		if len(s.calls) != 0 {
			t.Errorf("%d fetches are left", len(s.calls))
		}
	})
}

func TestADoneContextDoesNotFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing()
		ctx, cancel := within(time.Minute)
		cancel()
		_, err := s.do(ctx, "k", func(context.Context) (board.Answer, error) {
			t.Error("it fetched")
			return board.Answer{}, nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
}

// Whatever comes together: everybody returns by its own end, one fetch runs at
// a time, and nothing is left.
func TestSharingUnderRandomEnds(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newSharing()
			running, fetches := 0, 0
			var wg sync.WaitGroup
			for range 40 {
				start := time.Duration(rng.IntN(5000)) * time.Millisecond
				budgeted := time.Duration(1+rng.IntN(4000)) * time.Millisecond
				cancelled := time.Duration(1+rng.IntN(8000)) * time.Millisecond
				takes := time.Duration(rng.IntN(3000)) * time.Millisecond
				wg.Go(func() {
					time.Sleep(start)
					ctx, cancel := within(budgeted)
					defer cancel()
					defer time.AfterFunc(cancelled, cancel).Stop()
					began := time.Now()
					_, err := s.do(ctx, "k", func(ctx context.Context) (board.Answer, error) {
						running++
						fetches++
						defer func() { running-- }()
						if running != 1 {
							t.Errorf("seed %d: %d fetches at once", seed, running)
						}
						if err := budget.Wait(ctx, takes); err != nil {
							return board.Answer{}, ended(err)
						}
						return board.Answer{Status: 200}, nil
					})
					if took := time.Since(began); took > min(budgeted, cancelled) {
						t.Errorf("seed %d: returned %v after its end (%v)", seed, took-min(budgeted, cancelled), err)
					}
				})
			}
			wg.Wait()
			if len(s.calls) != 0 || fetches == 0 {
				t.Errorf("seed %d: %d fetches are left of %d", seed, len(s.calls), fetches)
			}
		})
	}
}
