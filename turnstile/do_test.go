package turnstile

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

var errUse = errors.New("use")

func TestDoReturnsTheErrorOfUse(t *testing.T) {
	ts := New(1)
	for _, want := range []error{nil, errUse} {
		if got := ts.Do(t.Context(), NewClaim(0), func() error { return want }); got != want {
			t.Errorf("Do() = %v; want use's %v", got, want)
		}
	}
}

func TestT11_DoEnclosesTheUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		for name, use := range map[string]func() error{
			"returns":            func() error { return nil },
			"fails":              func() error { return errUse },
			"panics":             func() error { panic("ouch") },
			"ends its goroutine": func() error { runtime.Goexit(); return nil },
		} {
			go func() {
				defer func() { recover() }()
				ts.Do(t.Context(), NewClaim(0), func() error {
					if available, _ := ts.Snapshot(); available != 0 {
						t.Errorf("%s: %d passes are free during the use; want 0", name, available)
					}
					return use()
				})
			}()
			wantSnapshot(t, ts, 1, 0)
		}
	})
}

func TestT6_DoWithoutATurnDoesNotRunAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		for name, c := range map[string]struct {
			end  func(ts *Turnstile, cancel context.CancelCauseFunc)
			want error
		}{
			"its context ends": {func(_ *Turnstile, cancel context.CancelCauseFunc) { cancel(enough) }, enough},
			"it is closed":     {func(ts *Turnstile, _ context.CancelCauseFunc) { ts.Close() }, ErrClosed},
		} {
			ts := New(0)
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error)
			go func() {
				result <- ts.Do(ctx, NewClaim(0), func() error { t.Errorf("%s: use runs", name); return nil })
			}()
			synctest.Wait()
			c.end(ts, cancel)
			if got := <-result; got != c.want {
				t.Errorf("%s: Do() = %v; want %v", name, got, c.want)
			}
			cancel(nil)
		}
	})
}

func TestT16_DoOfOneWhoWasPassedOverIsADeadlineExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := NewWith(1, Options{MinUseful: time.Second})
		pass := take(t, ts)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		result := make(chan error)
		go func() { result <- ts.Do(ctx, NewClaim(0), func() error { t.Error("use runs"); return nil }) }()
		time.Sleep(time.Second + 1)
		pass.Return()
		if got := <-result; !errors.Is(got, ErrDoomed) || !errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("Do() = %v; want ErrDoomed, which is DeadlineExceeded", got)
		}
	})
}
