package lane

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"layover/budget"
	"layover/turnstile"
)

func TestL1_ARequestWithoutABudgetIsRefused(t *testing.T) {
	client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, ""), nil })
	l := newLane(t, Options{Client: client})
	withTimeout, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, ctx := range map[string]context.Context{"no deadline": context.Background(), "a deadline": withTimeout} {
		_, err := get(ctx, l)
		if e := failure(t, err, Failed); !errors.Is(err, ErrNoBudget) || e.Attempts != 0 {
			t.Errorf("%s: Do = %v, want ErrNoBudget", name, err)
		}
	}
	if sent.times() != 0 {
		t.Errorf("%d requests were sent", sent.times())
	}
}

func TestL1_ATimeOutAroundAPartOfTheOperationIsRefused(t *testing.T) {
	client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, ""), nil })
	l := newLane(t, Options{Client: client})
	ctx := operation(t, time.Minute)
	shorter, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for name, ctx := range map[string]context.Context{"a shorter one": shorter, "none any more": context.WithoutCancel(ctx)} {
		if _, err := get(ctx, l); !errors.Is(err, ErrDeadline) {
			t.Errorf("%s: Do = %v, want ErrDeadline", name, err)
		}
	}
	part, cancelPart := budget.For(ctx, time.Second)
	defer cancelPart()
	value := context.WithValue(part, valueKey{}, 1)
	if _, err := get(value, l); err != nil || sent.times() != 1 {
		t.Errorf("within a budget in a budget: Do = %v, %d requests; want one", err, sent.times())
	}
}

type valueKey struct{}

func TestL1_OptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		host string
		o    Options
		want string
	}{
		"time-out":      {host, Options{Client: &http.Client{Timeout: 1}}, "Timeout"},
		"redirects":     {host, Options{Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}}, "CheckRedirect"},
		"negative":      {host, Options{MaxBody: -1}, "MaxBody is -1"},
		"not a number":  {host, Options{Rate: rate.Limit(math.NaN())}, "option Rate is NaN"},
		"no host":       {"", Options{}, `"" is not a host`},
		"a URL":         {"http://boards.example", Options{}, "is not a host"},
		"a path":        {"boards.example/jobs", Options{}, "is not a host"},
		"a bad port":    {"boards.example:x", Options{}, "is not a host"},
		"a second host": {host, Options{Hosts: []string{"user@www.boards.example"}}, "user@www.boards.example"},
	} {
		if _, err := New(test.host, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: New = %v, want an error that names %q", name, err, test.want)
		}
	}
	if _, err := New(host, Options{Client: &http.Client{Timeout: 1}}); !errors.Is(err, ErrClientTimeout) {
		t.Errorf("New with a Timeout = %v, want ErrClientTimeout", err)
	}
}

func TestL1_ALaneLeadsToItsHostsOnly(t *testing.T) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, ""), nil })
	l := newLane(t, Options{Client: client, Hosts: []string{"www.boards.example", "api.boards.example:8443", "[::1]:80"}})
	for url, want := range map[string]error{
		page:                               nil,
		"https://BOARDS.example.:443/":     nil,
		"https://www.boards.example/":      nil,
		"https://api.boards.example:8443/": nil,
		"http://[::1]/":                    nil,
		"http://boards.example:443/":       ErrHost,
		"https://api.boards.example/":      ErrHost,
		"https://other.example/":           ErrHost,
		"https://boards.example@evil.test": ErrHost,
		"ftp://boards.example/":            ErrHost,
		"/jobs":                            ErrHost,
		"":                                 ErrHost,
		"http://boards.example/%zz":        ErrHost,
	} {
		_, err := l.Do(operation(t, time.Minute), Request{URL: url})
		if !errors.Is(err, want) {
			t.Errorf("Do of %q = %v, want %v", url, err, want)
		}
	}
}

func TestL2_ThePhasesOfARequestAreInTheLedger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			switch n {
			case 1:
				return answer(r, 500, ""), nil
			case 2:
				return answer(r, 429, "", "Retry-After", "3"), nil
			}
			return answer(r, 200, "good"), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 1, Rate: 1})
		first := operation(t, time.Minute)
		go get(first, l)
		synctest.Wait()

		begin := time.Now()
		ctx := operation(t, time.Minute)
		got, err := get(ctx, l)
		if err != nil || string(got.Body) != "good" || got.Attempts != 3 {
			t.Fatalf("Do = %v, %v; want the third answer", got, err)
		}
		// 0.1 in line; at 1.0 the pace; 0.1 sent; 0.5 back-off; at 2.0 the pace; 0.1 sent; 3 pause, during which the pace has caught up;
		// 0.1 sent.
		exactly(t, "the answer", begin, 5200*time.Millisecond)
		elapsed := make(map[string]time.Duration)
		for _, entry := range budget.From(ctx).Ledger().Phases {
			elapsed[entry.Path] = entry.Elapsed
		}
		for phase, want := range map[string]time.Duration{
			"line": 100 * time.Millisecond, "pace": 1300 * time.Millisecond, "attempt": 300 * time.Millisecond,
			"retry": 500 * time.Millisecond, "pause": 3 * time.Second,
		} {
			if elapsed[phase] != want {
				t.Errorf("the ledger has %v of %s, want %v: %v", elapsed[phase], phase, want, budget.From(ctx).Ledger())
			}
		}
		idle(t, l)
	})
}

func TestL2_TheOldestJobIsNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var order []string
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			order = append(order, r.Header.Get("Job"))
			time.Sleep(time.Second)
			return answer(r, 200, ""), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 1})
		jobs := map[string]context.Context{}
		for _, name := range []string{"old", "holder", "young"} {
			jobs[name] = turnstile.Begin(operation(t, time.Minute), 0)
			time.Sleep(time.Second)
		}
		jobs["urgent"] = turnstile.Begin(operation(t, time.Minute), -1)
		for _, name := range []string{"holder", "young", "urgent", "old"} {
			go l.Do(jobs[name], Request{URL: page, Header: http.Header{"Job": {name}}})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := []string{"holder", "urgent", "old", "young"}; !slices.Equal(order, want) {
			t.Errorf("sent in the order %v, want %v", order, want)
		}
		idle(t, l)
	})
}

func TestL2_ThePaceHoldsAndGoesToTheBestClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var order []string
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			order = append(order, r.Header.Get("Job"))
			return answer(r, 200, ""), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 10, Rate: 2, Burst: 1})
		begin := time.Now()
		for _, job := range []struct {
			name string
			band int
		}{{"first", 0}, {"second", 0}, {"third", 0}, {"urgent", -1}} {
			ctx := turnstile.Begin(operation(t, time.Minute), job.band)
			go l.Do(ctx, Request{URL: page, Header: http.Header{"Job": {job.name}}})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// The second has its slot already when the urgent one comes.
		if want := []string{"first", "second", "urgent", "third"}; !slices.Equal(order, want) {
			t.Errorf("sent in the order %v, want %v", order, want)
		}
		for n := range 4 {
			if got, want := sent.after(begin, n), time.Duration(n)*500*time.Millisecond; got != want {
				t.Errorf("request %d was sent after %v, want %v", n, got, want)
			}
		}
		idle(t, l)
	})
}

// A reservation that is given back leaves the pace as if it had never been.
func TestL2_ASlotThatIsNotUsedGoesToTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, ""), nil })
		l := newLane(t, Options{Client: client, Concurrency: 10, Rate: 0.125})
		begin := time.Now()
		if _, err := get(operation(t, time.Minute), l); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancel(operation(t, time.Minute))
		go get(leaving, l) // has the slot at 8 s
		synctest.Wait()
		go get(operation(t, time.Minute), l) // is behind it
		synctest.Wait()
		time.Sleep(3 * time.Second)
		leave()
		if _, err := get(operation(t, 5*time.Second), l); !errors.Is(err, context.DeadlineExceeded) { // cannot pay for any
			t.Errorf("Do with 5s left = %v, want DeadlineExceeded", err)
		}
		time.Sleep(time.Minute)
		if sent.times() != 2 || sent.after(begin, 1) != 8*time.Second {
			t.Errorf("%d sent, the second after %v; want 2, after 8s", sent.times(), sent.after(begin, 1))
		}
		idle(t, l)
	})
}

func TestA60_L2_ThePaceRefusesWithDeadlineExceededAndItsName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, ""), nil })
		l := newLane(t, Options{Client: client, Rate: 0.1})
		get(operation(t, time.Minute), l)
		begin := time.Now()
		_, err := get(operation(t, 5*time.Second), l)
		exactly(t, "the refusal", begin, 0)
		e := failure(t, err, Deadline)
		var spent *budget.Exhausted
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &spent) {
			t.Fatalf("Do = %v, want an Exhausted that is DeadlineExceeded", err)
		}
		if asked, left, refused := spent.Refused(); !refused || asked <= 10*time.Second || left != 5*time.Second {
			t.Errorf("Refused() = %v, %v, %v; want a little over 10s, 5s, true", asked, left, refused)
		}
		if !slices.Equal(spent.Phases(), []string{"pace"}) || e.Attempts != 0 || sent.times() != 1 {
			t.Errorf("phases %v, %d attempts, %d sent; want [pace], 0, 1", spent.Phases(), e.Attempts, sent.times())
		}
		if again, err := get(operation(t, 11*time.Second), l); err != nil {
			t.Errorf("the next one = %v, %v; want the slot that was given back", again, err)
		}
		exactly(t, "the next one", begin, 10*time.Second)
	})
}

func TestA22_L2_ThePassIsHandedBackBeforeABackOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			return answer(r, []int{503, 200, 200}[n], ""), nil
		})
		l := newLane(t, Options{Client: client, Concurrency: 1})
		begin := time.Now()
		done := make(chan error, 1)
		ctx := operation(t, time.Minute)
		go func() { _, err := get(ctx, l); done <- err }()
		synctest.Wait() // it backs off
		if s := l.Stats(); s.Waiting != 1 || s.InFlight != 0 {
			t.Errorf("Stats in a back-off: %d waiting, %d in flight; want 1, 0", s.Waiting, s.InFlight)
		}
		if _, err := get(operation(t, time.Minute), l); err != nil {
			t.Error(err)
		}
		exactly(t, "the other one's answer", begin, 0)
		if err := <-done; err != nil || sent.times() != 3 {
			t.Errorf("Do = %v after %d requests, want nil after 3", err, sent.times())
		}
		exactly(t, "the answer", begin, 500*time.Millisecond)
		idle(t, l)
	})
}

func TestA32_A46_L2_EveryWaitEndsWithACancelAndItsCause(t *testing.T) {
	reason := errors.New("the user has left")
	for phase, prepare := range map[string]struct {
		o      Options
		status int
		header []string
		before int // requests of others
	}{
		"line":    {Options{Concurrency: 1}, 0, nil, 1},
		"pace":    {Options{Concurrency: 2, Rate: 0.1}, 0, nil, 1},
		"attempt": {Options{}, 0, nil, 0},
		"retry":   {Options{}, 502, nil, 0},
		"pause":   {Options{}, 429, []string{"Retry-After", "5"}, 0},
	} {
		t.Run(phase, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
					if prepare.status != 0 {
						return answer(r, prepare.status, "", prepare.header...), nil
					}
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				prepare.o.Client = client
				l := newLane(t, prepare.o)
				other, end := context.WithCancel(operation(t, time.Minute))
				for range prepare.before {
					go get(other, l)
					synctest.Wait()
				}
				ctx, cancel := context.WithCancelCause(operation(t, time.Minute))
				time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
				begin := time.Now()
				_, err := get(ctx, l)
				exactly(t, "the end", begin, 100*time.Millisecond)
				failure(t, err, Cancelled)
				if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do = %v, want Canceled because of %q", err, reason)
				}
				end()
				synctest.Wait()
				idle(t, l)
			})
		})
	}
}

func TestA33_AnEndedOperationSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 503, ""), nil })
		l := newLane(t, Options{Client: client})
		ctx := operation(t, time.Second)
		time.Sleep(time.Second)
		_, err := get(ctx, l)
		failure(t, err, Deadline)
		cancelled, cancel := context.WithCancel(operation(t, time.Second))
		cancel()
		_, err = get(cancelled, l)
		failure(t, err, Cancelled)
		if sent.times() != 0 {
			t.Errorf("%d requests were sent, want none", sent.times())
		}
		idle(t, l)
	})
}

func TestA34_A40_L3_TheEndAndTheRealErrorAreBothInTheError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n == 0 {
				return nil, errReset
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		l := newLane(t, Options{Client: client})
		ctx := operation(t, 3*time.Second)
		begin := time.Now()
		_, err := get(ctx, l)
		exactly(t, "the end", begin, 3*time.Second)
		e := failure(t, err, Deadline)
		if e.Last != error(errReset) || !errors.Is(err, errReset) || !errors.Is(err, context.DeadlineExceeded) || e.Attempts != 2 {
			t.Errorf("Do = %#v, want the reset and DeadlineExceeded after 2 attempts", e)
		}
		if e.Err != context.Cause(ctx) {
			t.Errorf("Err = %v, want the operation's own end, %v", e.Err, context.Cause(ctx))
		}
		var spent *budget.Exhausted
		if !errors.As(err, &spent) || !slices.Equal(spent.Phases(), []string{"attempt"}) || spent.Last() != error(errReset) {
			t.Errorf("Do = %v, want it spent in the attempt after the reset", err)
		}
		for _, want := range []string{"GET " + page, "connection reset", "3s spent in attempt", "sent 2 times"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	})
}

func TestA41_B11_L2_EachAttemptSaysWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var said []string
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			said = append(said, r.Header.Get("Operation-Timeout"))
			time.Sleep(100 * time.Millisecond)
			return answer(r, []int{503, 503, 200}[n], ""), nil
		})
		l := newLane(t, Options{Client: client, SendDeadline: true})
		h := http.Header{"Operation-Timeout": {"1h"}}
		if _, err := l.Do(operation(t, 10*time.Second), Request{URL: page, Header: h}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"10000ms", "9400ms", "8300ms"}; !slices.Equal(said, want) {
			t.Errorf("the attempts said %v, want %v", said, want)
		}
		if h.Get("Operation-Timeout") != "1h" || len(h) != 1 {
			t.Errorf("the request's header was changed: %v", h)
		}
	})
}

func TestTheErrorNamesNoSecret(t *testing.T) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { return nil, errReset })
	l := newLane(t, Options{Client: client, Attempts: 1})
	for _, url := range []string{
		"http://user:hush@boards.example/jobs?key=hush#hush",
		"http://user:hush@boards.example:x/?key=hush",
		"http://user:hush@other.example/jobs?key=hush",
	} {
		if _, err := l.Do(operation(t, time.Minute), Request{URL: url}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("Do = %v, want an error without the secret", err)
		}
	}
	l.o.Attempts = 2
	if _, err := l.Do(operation(t, time.Minute), Request{URL: page, Method: "BAD METHOD", Safe: true}); failure(t, err, Failed).Attempts != 1 || !strings.Contains(err.Error(), "BAD METHOD") {
		t.Errorf("Do with a bad method = %v, want an error that names it after one attempt", err)
	}
}

func TestAPanicOfTheTransportLeavesTheLaneWhole(t *testing.T) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { panic("broken") })
	l := newLane(t, Options{Client: client})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come through")
			}
		}()
		get(operation(t, time.Minute), l)
	}()
	idle(t, l)
}

func TestStopOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Stop
	}{
		{nil, Done}, {context.Canceled, Cancelled}, {context.DeadlineExceeded, Deadline}, {turnstile.ErrDoomed, Deadline},
		{errReset, Failed}, {&Error{Stop: RateLimited, Err: context.Canceled}, RateLimited},
	} {
		if got := StopOf(test.err); got != test.want {
			t.Errorf("StopOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
}
