package lane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"layover/budget"
)

func TestJ14_L5_WhichAnswersAreSentAgain(t *testing.T) {
	again := map[int]bool{408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true}
	for status := 200; status < 600; status++ {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, status, "body"), nil })
			got, err := get(operation(t, time.Minute), newLane(t, Options{Client: client, Attempts: 2}))
			want := 1
			if again[status] {
				want = 2
			}
			if sent.times() != want || got.Status != status || got.Attempts != want || (err == nil) != (status < 400) {
				t.Errorf("status %d: %d requests, %v, want %d", status, sent.times(), err, want)
			}
		})
	}
}

func TestL5_RetryStatusDecidesForTheServersErrorsOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for status, want := range map[int]int{404: 1, 429: 2, 500: 1, 503: 1, 529: 2} {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, status, ""), nil })
			l := newLane(t, Options{Client: client, Attempts: 2, RetryStatus: func(status int) bool { return status == 529 || status == 404 }})
			_, err := get(operation(t, time.Minute), l)
			if sent.times() != want || !strings.Contains(err.Error(), fmt.Sprint("status ", status)) {
				t.Errorf("status %d: %d requests, %v; want %d", status, sent.times(), err, want)
			}
		}
	})
}

func TestA43_L5_OnlyWhatIsSafeIsSentAgain(t *testing.T) {
	type outcome struct {
		status int
		err    error
	}
	arrived, dialled := outcome{err: errReset}, outcome{err: errDial}
	for _, test := range []struct {
		method string
		safe   bool
		first  outcome
		want   int
	}{
		{"GET", false, arrived, 2}, {"HEAD", false, arrived, 2}, {"PUT", false, arrived, 2}, {"DELETE", false, arrived, 2},
		{"OPTIONS", false, arrived, 2}, {"TRACE", false, arrived, 2},
		{"POST", false, arrived, 1}, {"PATCH", false, arrived, 1}, {"get", false, arrived, 1},
		{"POST", false, outcome{status: 503}, 1}, {"POST", false, outcome{status: 429}, 1}, {"PUT", false, outcome{status: 503}, 2},
		{"POST", true, arrived, 2}, {"POST", true, outcome{status: 503}, 2},
		{"POST", false, dialled, 2}, {"PATCH", false, dialled, 2},
	} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					if text, _ := io.ReadAll(r.Body); string(text) != "question" {
						t.Errorf("request %d had the body %q", n, text)
					}
				}
				switch {
				case n == 0 && test.first.err != nil:
					return nil, test.first.err
				case n == 0:
					return answer(r, test.first.status, ""), nil
				}
				return answer(r, 200, ""), nil
			})
			_, err := newLane(t, Options{Client: client}).Do(operation(t, time.Minute),
				Request{Method: test.method, URL: page, Safe: test.safe, Body: []byte("question")})
			if sent.times() != test.want || (err == nil) != (test.want == 2) {
				t.Errorf("%s (safe: %v) after %+v: %d requests, %v; want %d", test.method, test.safe, test.first, sent.times(), err, test.want)
			}
		})
	}
}

func TestL5_WhatWouldFailAgainIsNotSentAgain(t *testing.T) {
	for name, err := range map[string]error{
		"no such host":    &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}},
		"certificate":     &tls.CertificateVerificationError{Err: errors.New("expired")},
		"dialer says no":  &net.OpError{Op: "dial", Err: backoff.Permanent(errors.New("a private address"))},
		"wrapped somehow": fmt.Errorf("proxy: %w", backoff.Permanent(errors.New("no"))),
	} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return nil, err })
			_, got := get(operation(t, time.Minute), newLane(t, Options{Client: client}))
			if failure(t, got, Failed); sent.times() != 1 || !errors.Is(got, err) {
				t.Errorf("%s: %d requests, %v; want one and that error", name, sent.times(), got)
			}
		})
	}
}

func TestA35_A36_L3_TheBudgetCoversAllAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n == 3 {
				<-r.Context().Done() // a stall, which only the operation's end ends
				return nil, r.Context().Err()
			}
			time.Sleep(time.Second)
			return answer(r, 504, ""), nil
		})
		begin := time.Now()
		_, err := get(operation(t, 20*time.Second), newLane(t, Options{Client: client, Attempts: 10}))
		exactly(t, "the end", begin, 20*time.Second)
		e := failure(t, err, Deadline)
		if sent.times() != 4 || e.Attempts != 4 || e.Status() != 504 {
			t.Errorf("%d requests, %+v; want 4 and the last answer", sent.times(), e)
		}
	})
}

func TestA39_ATransportsOwnTimeOutIsAnAttemptThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		requests := 0
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests < 3 {
				<-r.Context().Done()
			}
		})
		l.client.Transport.(*http.Transport).ResponseHeaderTimeout = time.Second
		begin := time.Now()
		ctx := operation(t, time.Minute)
		if _, err := get(ctx, l); err != nil {
			t.Errorf("Do = %v, want the third answer", err)
		}
		exactly(t, "the answer", begin, 3500*time.Millisecond)
		requests = 0
		_, err := get(operation(t, 2*time.Second), l)
		e := failure(t, err, Deadline)
		if e.Last == nil || errors.Is(e.Last, context.DeadlineExceeded) && !strings.Contains(e.Last.Error(), "awaiting response headers") {
			t.Errorf("Last = %v, want the transport's own time-out", e.Last)
		}
	})
}

func TestA42_L5_AllLayersShareOneAllowance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 503, ""), nil })
		lanes := []*Lane{newLane(t, Options{Client: client}), newLane(t, Options{Client: client})}
		ctx := Allow(operation(t, time.Hour), 5, 100)
		for i := range 12 { // a layer above that tries again, on two lanes
			_, err := get(ctx, lanes[i%2])
			if failure(t, err, Failed); i > 1 && !errors.Is(err, ErrAttempts) {
				t.Errorf("try %d: Do = %v, want ErrAttempts", i, err)
			}
		}
		if sent.times() != 5 {
			t.Errorf("%d requests, want 5", sent.times())
		}

		// Repeats alone, and an inner allowance, which can only be less.
		ctx = Allow(Allow(operation(t, time.Hour), 100, 3), 8, 100)
		for range 12 {
			get(ctx, lanes[0])
		}
		if sent.times() != 5+8 {
			t.Errorf("%d requests, want 13", sent.times())
		}
		a := allowanceOf(ctx)
		if a.attempts != 0 || a.retries != 97 || a.outer.attempts != 92 || a.outer.retries != 0 {
			t.Errorf("left: %d attempts and %d repeats of 8 and 100, %d and %d of 100 and 3; want 0, 97, 92, 0",
				a.attempts, a.retries, a.outer.attempts, a.outer.retries)
		}
		if _, err := get(Allow(operation(t, time.Hour), -1, -1), lanes[0]); !errors.Is(err, ErrAttempts) {
			t.Errorf("with none allowed: Do = %v, want ErrAttempts", err)
		}
	})
}

func TestA42_WhatWasPermittedAndNotUsedComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 503, ""), nil })
		l := newLane(t, Options{Client: client})
		for _, d := range []time.Duration{400 * time.Millisecond, time.Millisecond} { // no back-off fits; no attempt fits
			ctx := Allow(operation(t, d), 5, 5)
			get(ctx, l)
			if a := allowanceOf(ctx); a.retries != 5 || a.attempts != 4 && d > time.Millisecond || a.attempts != 5 && d == time.Millisecond {
				t.Errorf("after %v: %d attempts and %d repeats left of 5 and 5", d, a.attempts, a.retries)
			}
		}
		if got := l.Stats().Allowance; got != 10 {
			t.Errorf("the lane's allowance is %v, want 10", got)
		}
	})
}

func TestA45_L5_ASickHostIsNotHammeredAndStillPaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		status := 500
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, status, ""), nil })
		l := newLane(t, Options{Client: client, Retries: 3, Rate: 1, Backoff: time.Millisecond})
		begin := time.Now()
		for range 10 {
			get(operation(t, time.Hour), l)
		}
		if got := sent.times(); got != 13 { // 10 and 3 repeats, instead of 40
			t.Errorf("%d requests, want 13", got)
		}
		exactly(t, "the last one", begin, 12*time.Second)
		if s := l.Stats(); s.Allowance != 0 || s.Refused != 10-1 || s.Retries != 3 {
			t.Errorf("Stats = %+v, want 3 repeats and 9 refused", s)
		}
		_, err := get(operation(t, time.Hour), l)
		if e := failure(t, err, Failed); !errors.Is(err, ErrAttempts) || e.Status() != 500 {
			t.Errorf("Do = %v, want ErrAttempts and the 500", err)
		}

		// Any answer that is no reason for a repeat fills it up again, also one that is no success.
		status = 404
		for range 11 {
			get(operation(t, time.Hour), l)
		}
		status = 500
		before := sent.times()
		get(operation(t, time.Hour), l)
		if got := sent.times() - before; got != 2 {
			t.Errorf("%d requests after eleven answers, want 2", got)
		}
		status = 200
		for range 100 {
			get(operation(t, time.Hour), l)
		}
		if got := l.Stats().Allowance; got != 3 {
			t.Errorf("the allowance is %v, want 3 at most", got)
		}
	})
}

func TestL5_BackOffsDoubleUpToTheirBoundAndAreVaried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 500, ""), nil })
		begin := time.Now()
		get(operation(t, time.Hour), newLane(t, Options{Client: client, Attempts: 6, Backoff: time.Second, MaxBackoff: 3 * time.Second}))
		for n, want := range []time.Duration{0, 1, 3, 6, 9, 12} {
			if got := sent.after(begin, n); got != want*time.Second {
				t.Errorf("request %d was sent after %v, want %vs", n, got, int(want))
			}
		}
	})
	o := Options{Backoff: time.Second, MaxBackoff: time.Second}
	b := o.newBackoff()
	b.RandomizationFactor = backoff.DefaultRandomizationFactor
	for range 1000 {
		if d := b.NextBackOff(); d < 500*time.Millisecond || d > 1500*time.Millisecond {
			t.Fatalf("a back-off of 1s was varied to %v", d)
		}
	}
}

func TestL5_ABodyThatEndsEarlyIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			a := answer(r, 200, "whole")
			if n == 0 {
				a.Body = io.NopCloser(io.MultiReader(strings.NewReader("who"), broken{}))
			}
			return a, nil
		})
		got, err := get(operation(t, time.Minute), newLane(t, Options{Client: client}))
		if err != nil || string(got.Body) != "whole" || sent.times() != 2 {
			t.Errorf("Do = %v, %v after %d requests; want the whole body of the second", got, err, sent.times())
		}
	})
}

func TestL5_AnErrorAnswerIsOneWithoutItsBodyToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			a := answer(r, 404, "")
			a.Body = io.NopCloser(io.MultiReader(strings.NewReader("not he"), broken{}))
			return a, nil
		})
		got, err := get(operation(t, time.Minute), newLane(t, Options{Client: client}))
		if e := failure(t, err, Failed); e.Status() != 404 || string(got.Body) != "not he" || sent.times() != 1 {
			t.Errorf("Do = %v, %v after %d requests; want the 404 of the first", got, err, sent.times())
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestA44_TheBodyOutlivesTheOperation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		long := strings.Repeat("job ", 1<<18)
		l := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, long) })
		ctx, cancel := budget.For(context.Background(), time.Minute)
		got, err := get(ctx, l)
		cancel()
		if err != nil || string(got.Body) != long {
			t.Errorf("Do = %v with %d bytes; want all %d", err, len(got.Body), len(long))
		}
	})
}
