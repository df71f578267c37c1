package lane

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"layover/budget"
)

func TestA38_L3_AWaitOfExactlyWhatIsLeftIsTooLong(t *testing.T) {
	for name, test := range map[string]struct {
		more time.Duration // than hint and MinUseful
		sent int
	}{"equal": {0, 1}, "a nanosecond more": {1, 2}, "a nanosecond less": {-1, 1}} {
		for _, status := range []int{429, 503, 502} { // the first two pause the lane, the third is one request's wait
			bubble(t, func(t *testing.T) {
				client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
					return answer(r, []int{status, 200}[n], "", "Retry-After", "10"), nil
				})
				l := newLane(t, Options{Client: client, MinUseful: time.Second})
				begin := time.Now()
				_, err := get(operation(t, 11*time.Second+test.more), l)
				if sent.times() != test.sent {
					t.Errorf("%s, %d: %d requests, want %d", name, status, sent.times(), test.sent)
				}
				if test.sent == 2 {
					if err != nil {
						t.Errorf("%s, %d: Do = %v", name, status, err)
					}
					exactly(t, "the answer", begin, 10*time.Second)
					return
				}
				exactly(t, "the refusal", begin, 0)
				failure(t, err, RateLimited)
				idle(t, l)
			})
		}
	}
}

func TestA31_A36_L3_ABackOffThatDoesNotFitEndsItAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(r, 503, "sorry"), nil
		})
		l := newLane(t, Options{Client: client})
		begin := time.Now()
		got, err := get(operation(t, 5*time.Second), l)
		// Sent at 0, 1.5 and 3.5; the next back-off is 2 s, and half a second is left.
		exactly(t, "the end", begin, 4500*time.Millisecond)
		e := failure(t, err, Deadline)
		if got != e.Response || string(got.Body) != "sorry" || e.Attempts != 3 || !e.RetryAt.IsZero() {
			t.Errorf("Do = %+v, want the third answer and no time to come back", e)
		}
		if l.Stats().Allowance != 8 {
			t.Errorf("the allowance is %v, want 8: two repeats were made, the third was given back", l.Stats().Allowance)
		}
		idle(t, l)
	})
}

func TestA37_A47_A49_A52_L4_AHintThatDoesNotFitEndsItAtOnceAndSaysWhen(t *testing.T) {
	for hint, want := range map[string]time.Duration{
		"1800": 30 * time.Minute, "9223372037": 24 * time.Hour, "9999999999999999999999999999999999999999": 24 * time.Hour,
	} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
				return answer(r, 429, "slow down", "Retry-After", hint), nil
			})
			l := newLane(t, Options{Client: client})
			begin := time.Now()
			got, err := get(operation(t, time.Minute), l)
			exactly(t, "the end", begin, 0)
			e := failure(t, err, RateLimited)
			if got == nil || string(got.Body) != "slow down" || e.Status() != 429 || e.RetryAt.Sub(begin) != want {
				t.Errorf("Do = %v, %+v; want the 429 and to come back after %v", got, e, want)
			}
			var spent *budget.Exhausted
			if !errors.As(err, &spent) {
				t.Fatalf("Do = %v, want an Exhausted", err)
			}
			if asked, left, refused := spent.Refused(); !refused || asked < want || left != time.Minute {
				t.Errorf("Refused() = %v, %v, %v; want at least %v, 1m0s, true", asked, left, refused, want)
			}

			// Everybody else is told the same, and nothing is sent.
			_, err = get(operation(t, time.Minute), l)
			e = failure(t, err, RateLimited)
			if e.RetryAt.Sub(begin) != want || e.Attempts != 0 || sent.times() != 1 {
				t.Errorf("the next Do = %+v after %d requests, want the same time and no further request", e, sent.times())
			}
			if s := l.Stats(); s.PausedUntil.Sub(begin) != want || s.Limited != 1 {
				t.Errorf("Stats = %+v, want paused for %v", s, want)
			}
			idle(t, l)
		})
	}
}

func TestA50_L4_APauseIsEverybodysAndItsWaitersHoldNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n == 0 {
				time.Sleep(time.Second)
				return answer(r, 429, "", "Retry-After", "30"), nil
			}
			return answer(r, 200, ""), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 1, Rate: 2})
		begin := time.Now()
		done := make(chan error)
		for range 5 { // one finds the pause, four are in line
			ctx := operation(t, time.Minute)
			go func() { _, err := get(ctx, l); done <- err }()
			synctest.Wait()
		}
		late := make(chan error)
		ctx := operation(t, 20*time.Second)
		go func() { _, err := get(ctx, l); late <- err }()
		if e := failure(t, <-late, RateLimited); e.RetryAt.Sub(begin) != 31*time.Second {
			t.Errorf("it was told to come back after %v, want 31s", e.RetryAt.Sub(begin))
		}
		exactly(t, "the one in line that cannot wait", begin, time.Second)
		synctest.Wait()
		available, waiting := l.line.Snapshot()
		if s := l.Stats(); s.Waiting != 5 || s.InFlight != 0 || available != 1 || waiting != 0 {
			t.Errorf("in the pause: %+v, %d passes free, %d in line; want 5 waiting, 1 free, none in line", s, available, waiting)
		}
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for n := 1; n <= 5; n++ {
			if got, want := sent.after(begin, n), 31*time.Second+time.Duration(n-1)*500*time.Millisecond; got != want {
				t.Errorf("request %d was sent after %v, want %v", n, got, want)
			}
		}
		idle(t, l)
	})
}

func TestL4_A503WithAHintPausesTheLaneAndOneWithoutDoesNot(t *testing.T) {
	for hint, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "0": 0, "soon": 0} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
				if n == 0 {
					return answer(r, 503, "", "Retry-After", hint), nil
				}
				return answer(r, 200, ""), nil
			})
			l := newLane(t, Options{Client: client})
			begin := time.Now()
			ctx := operation(t, time.Minute)
			go get(ctx, l)
			synctest.Wait()
			get(operation(t, time.Minute), l)
			exactly(t, "another one's answer", begin, want)
			time.Sleep(time.Minute)
			own := max(want, 500*time.Millisecond) // never earlier than asked, and not at once either
			if last := max(sent.after(begin, 1), sent.after(begin, 2)); last != own {
				t.Errorf("Retry-After %q: the last request was sent after %v, want %v", hint, last, own)
			}
		})
	}
}

func TestL4_AHintIsObeyedToTheNanosecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Millisecond)
			return answer(r, []int{429, 502, 200}[n], "", "Retry-After", "2.5"), nil
		})
		begin := time.Now()
		if _, err := get(operation(t, time.Minute), newLane(t, Options{Client: client})); err != nil {
			t.Fatal(err)
		}
		for n, want := range []time.Duration{0, 2510 * time.Millisecond, 5020 * time.Millisecond} {
			if got := sent.after(begin, n); got != want {
				t.Errorf("request %d was sent after %v, want %v", n, got, want)
			}
		}
	})
}

// What an answer asked for is asked once: an attempt after it that has no answer has a back-off of its own, and is judged by itself.
func TestL4_AHintIsThatOfItsAnswerOnly(t *testing.T) {
	for _, status := range []int{502, 429} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
				if n == 0 {
					return answer(r, status, "", "Retry-After", "1"), nil
				}
				return nil, errReset
			})
			begin := time.Now()
			_, err := get(operation(t, time.Minute), newLane(t, Options{Client: client, Attempts: 3}))
			if got := sent.after(begin, 2); got != 1500*time.Millisecond {
				t.Errorf("after a %d and a reset it was sent again after %v, want 1.5s", status, got)
			}
			if e := failure(t, err, Failed); !errors.Is(err, errReset) || e.Status() != status || !e.RetryAt.IsZero() {
				t.Errorf("Do = %v, want the reset", err)
			}
		})
	}
}

func TestL4_AHintThatHasPassedWithItsAnswersBodyIsNotWaitedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		requests := 0
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests > 1 {
				return
			}
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(502)
			w.(http.Flusher).Flush()
			time.Sleep(3 * time.Second)
		})
		begin := time.Now()
		if _, err := get(operation(t, time.Minute), l); err != nil {
			t.Error(err)
		}
		exactly(t, "the answer", begin, 3*time.Second)
	})
}

func TestL4_ALanePausesItselfAfterA429ThatDoesNotSayWhen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limited := true
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Millisecond)
			if limited {
				return answer(r, 429, ""), nil
			}
			return answer(r, 200, ""), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 3, Attempts: 2})
		begin := time.Now()
		done := make(chan error, 3)
		for range 3 {
			ctx := operation(t, time.Minute)
			go func() { _, err := get(ctx, l); done <- err }()
		}
		for range 3 {
			e := failure(t, <-done, RateLimited)
			if !errors.Is(e, ErrAttempts) || e.RetryAt.IsZero() {
				t.Errorf("Do = %v, want ErrAttempts and a time", e)
			}
		}
		// Three answers at 0.01 are one piece of news: half a second. Three at 0.52 another: one second.
		for n := range 6 {
			if got, want := sent.after(begin, n), time.Duration(n/3)*510*time.Millisecond; got != want {
				t.Errorf("request %d was sent after %v, want %v", n, got, want)
			}
		}
		if got := l.Stats().PausedUntil.Sub(begin); got != 1520*time.Millisecond {
			t.Errorf("paused until %v, want 1.52s", got)
		}
		limited = false
		get(operation(t, time.Minute), l)
		exactly(t, "the good answer", begin, 1530*time.Millisecond)
		limited = true
		get(operation(t, 100*time.Millisecond), l)
		begin = time.Now()
		if got := l.Stats().PausedUntil.Sub(begin); got != 500*time.Millisecond {
			t.Errorf("paused for %v after a good answer and a 429, want 500ms again", got)
		}
	})
}

func TestAnAttemptThatIsCutOffInAPauseHasEndedInItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return answer(r, 429, "", "Retry-After", "60"), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		l := newLane(t, Options{Client: client})
		ctx := operation(t, 10*time.Second)
		done := make(chan error)
		go func() { _, err := get(ctx, l); done <- err }()
		synctest.Wait()
		begin := time.Now()
		get(operation(t, time.Second), l)
		if e := failure(t, <-done, Deadline); e.RetryAt.Sub(begin) != time.Minute {
			t.Errorf("it is to come back after %v, want 1m", e.RetryAt.Sub(begin))
		}
	})
}

func TestL4_TheStateOutlivesTheLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			return answer(r, 429, "", "Retry-After", "60"), nil
		})
		l := newLane(t, Options{Client: client})
		if text, _ := json.Marshal(l.State()); string(text) != "{}" {
			t.Errorf("the state of a new lane is %s, want {}", text)
		}
		get(operation(t, time.Second), l)
		text, err := json.Marshal(l.State())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		var s State
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		next := newLane(t, Options{Client: client})
		next.Restore(s)
		begin := time.Now()
		_, err = get(operation(t, time.Second), next)
		if e := failure(t, err, RateLimited); e.RetryAt.Sub(begin) != 40*time.Second {
			t.Errorf("after the restart it is to come back after %v, want 40s", e.RetryAt.Sub(begin))
		}
		next.Restore(State{PausedUntil: begin.Add(time.Second)})
		next.Restore(State{PausedUntil: begin.Add(-time.Hour)})
		next.Restore(State{})
		if got := next.Stats().PausedUntil.Sub(begin); got != 40*time.Second {
			t.Errorf("a shorter one made it %v, want 40s", got)
		}
		next.Restore(State{PausedUntil: begin.Add(1000 * time.Hour)})
		if got := next.Stats().PausedUntil.Sub(begin); got != 24*time.Hour {
			t.Errorf("a long one made it %v, want MaxPause", got)
		}
		time.Sleep(24 * time.Hour)
		if s := next.State(); s != (State{}) {
			t.Errorf("after the pause the state is %+v, want the zero State", s)
		}
	})
}

// The pause counts from the header on, also if the rest of that answer never comes.
// A machine that was suspended in a pause waits for the rest of it, and says when that ends by the clock as it is then.
func TestA54_L4_APauseCountsTimeAwakeAndItsEndIsToldByTheClockOfNow(t *testing.T) {
	l, err := New("boards.example", Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.paused.until = stepped(time.Now().Add(time.Hour), -2*time.Hour) // two hours of sleep ago it was to end an hour ago
	ctx, cancel := budget.For(t.Context(), time.Minute)
	defer cancel()
	var refused *Error
	if _, err := l.Do(ctx, Request{URL: "https://boards.example/"}); !errors.As(err, &refused) || refused.Stop != RateLimited {
		t.Fatalf("Do in the pause: %v, want it rate limited", err)
	}
	for what, at := range map[string]time.Time{"RetryAt": refused.RetryAt, "Stats": l.Stats().PausedUntil, "State": l.State().PausedUntil} {
		if left := at.Round(0).Sub(time.Now().Round(0)); left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s is in %v by the wall clock, want an hour", what, left)
		}
	}
}

// stepped is t on a system clock that was stepped by whole seconds. Package time has no way to say so, hence the look into its
// layout: the seconds are bits 30 to 62 of the first word.
func stepped(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(by/time.Second)) << 30
	return t
}

func TestL4_ThePauseBeginsBeforeTheBodyIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(429)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		begin := time.Now()
		ctx := operation(t, 10*time.Second)
		done := make(chan error)
		go func() { _, err := get(ctx, l); done <- err }()
		time.Sleep(time.Second)
		_, err := get(operation(t, 10*time.Second), l)
		failure(t, err, RateLimited)
		exactly(t, "the other one's refusal", begin, time.Second)
		err = <-done
		exactly(t, "the end", begin, 10*time.Second)
		if e := failure(t, err, RateLimited); e.Status() != 429 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want the 429 and the end", err)
		}
		idle(t, l)
	})
}
