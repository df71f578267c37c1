package courtesy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"layover/internal/jobs/board"
	"layover/internal/jobs/fakeboards"
)

func TestAYoungAnswerIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		first := mustGet(t, c, acme(), jobsURL)
		during(time.Minute - time.Nanosecond)
		second := mustGet(t, c, acme(), jobsURL)
		if string(second.Body) != "one" || !second.At.Equal(first.At) || second.Status != 200 {
			t.Errorf("the second answer is %q of %v, want the first, of %v", second.Body, second.At, first.At)
		}
		p.wantAts(0)
		during(time.Nanosecond)
		mustGet(t, c, acme(), jobsURL)
		p.wantAts(0, time.Minute)
	}))
}

func TestWhatDiffersIsAskedFor(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.Every = time.Nanosecond
		ctx, cancel := within(time.Minute)
		defer cancel()
		for _, r := range []board.Request{
			{URL: jobsURL},
			{URL: jobsURL + "?page=2"},
			{URL: jobsURL, Header: http.Header{"Accept-Language": {"pt"}}},
			{URL: jobsURL, Method: "POST", Query: true, Body: []byte("a")},
			{URL: jobsURL, Method: "POST", Query: true, Body: []byte("b")},
		} {
			for range 2 {
				if _, err := c.Fetch(b)(ctx, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(p.ats()); n != 5 {
			t.Errorf("%d requests for 5 different questions asked twice, want 5", n)
		}
	}))
}

func TestAPostThatChangesSomethingIsSentEachTime(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		ctx, cancel := within(time.Minute)
		defer cancel()
		for range 2 {
			if _, err := c.Fetch(acme())(ctx, board.Request{URL: jobsURL, Method: "POST"}); err != nil {
				t.Fatal(err)
			}
		}
		p.wantAts(0, time.Second)
	}))
}

func TestAnAnswerThatIsOldIsAskedForAgainOnlyIfItChanged(t *testing.T) {
	for _, tt := range []struct{ validator, value, condition string }{
		{"Etag", `"v1"`, "If-None-Match"},
		{"Last-Modified", "Sun, 29 Nov 2026 10:00:00 GMT", "If-Modified-Since"},
	} {
		t.Run(tt.validator, func(t *testing.T) {
			synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(tt.condition) == tt.value {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set(tt.validator, tt.value)
				w.Write([]byte("one"))
			}, func(t *testing.T, p *play, c *Courtesy) {
				mustGet(t, c, acme(), jobsURL)
				during(2 * time.Minute)
				a := mustGet(t, c, acme(), jobsURL)
				if string(a.Body) != "one" || a.Status != 200 || !a.At.Equal(time.Now()) {
					t.Errorf("after 304: status %d, %q of %v; want 200, the kept body, of now", a.Status, a.Body, a.At)
				}
				mustGet(t, c, acme(), jobsURL)
				during(2 * time.Minute)
				mustGet(t, c, acme(), jobsURL)
				p.wantAts(0, 2*time.Minute, 4*time.Minute)
				if s := c.Stats().Cache; s.Revalidated != 2 || s.Hits != 1 || s.Misses != 3 || s.Entries != 1 {
					t.Errorf("cache statistics %+v, want 2 revalidated, 1 hit, 3 misses, 1 entry", s)
				}
			}))
		})
	}
}

// A 304 to a question without a condition is no answer.
func TestA304ThatWasNotAskedForIsTrouble(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, func(t *testing.T, p *play, c *Courtesy) {
		if _, err := get(c, acme(), time.Minute, jobsURL); troubleOf(err) == nil {
			t.Errorf("error %v, want a Trouble", err)
		}
	}))
}

func TestOnlyGoodAnswersAreKept(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"404":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"challenge": body("<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>checking your browser</body></html>"),
		"page":      body("<!DOCTYPE html><html><body>Welcome</body></html>"),
		"cut JSON":  body(`{"jobs":[{"id":1},{"id"`),
		"cut XML":   body(`<?xml version="1.0"?><workzag-jobs><position><id>1</id></position><position><na`),
		"half XML":  body(`<workzag-jobs><position><id>1</id></position>`),
		"203":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(203) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, on(handler, func(t *testing.T, p *play, c *Courtesy) {
				get(c, acme(), time.Minute, jobsURL)
				get(c, acme(), time.Minute, jobsURL)
				p.wantAts(0, time.Second)
				if n := c.Stats().Cache.Entries; n != 0 {
					t.Errorf("%d entries are kept, want none", n)
				}
			}))
		})
	}
}

// The board's terms: never ask again within Least.
func TestWithinLeastTheKeptAnswerIsGivenWithItsAge(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.Least = time.Hour
		first := mustGet(t, c, b, jobsURL)
		during(time.Hour - time.Nanosecond)
		if a := mustGet(t, c, b, jobsURL); time.Since(a.At) != time.Hour-time.Nanosecond || !a.At.Equal(first.At) {
			t.Errorf("the answer is of %v ago, want of an hour", time.Since(a.At))
		}
		during(time.Nanosecond)
		mustGet(t, c, b, jobsURL)
		p.wantAts(0, time.Hour)
	}))
}

func TestWithinLeastALostAnswerIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, on(body(strings.Repeat("incompressible? no", 1000)), func(t *testing.T, p *play, _ *Courtesy) {
		c := p.open(Options{CacheBytes: entryCost + 10}) // room for an entry without its body
		defer c.Close()
		b := acme()
		b.Least = time.Hour
		mustGet(t, c, b, jobsURL)
		during(time.Minute)
		_, err := get(c, b, time.Minute, jobsURL)
		trouble := wantTrouble(t, err, board.RateLimited)
		if left := time.Until(trouble.RetryAt); left != 59*time.Minute {
			t.Errorf("it may be asked again in %v, want 59m", left)
		}
		if c.Stats().Cache.Withheld != 1 {
			t.Errorf("statistics %+v, want 1 withheld", c.Stats().Cache)
		}
		during(59 * time.Minute)
		mustGet(t, c, b, jobsURL)
		p.wantAts(0, time.Hour)
	}))
}

// What makes room is a body; that the board was asked is still known.
func TestWithinLeastADroppedAnswerIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		c := p.open(Options{CacheBytes: 3*entryCost + 50})
		defer c.Close()
		b := acme()
		b.Least = time.Hour
		for _, page := range []string{"1", "2", "3"} {
			mustGet(t, c, b, jobsURL+"?"+page)
		}
		n := len(p.ats())
		_, err := get(c, b, time.Minute, jobsURL+"?1")
		wantTrouble(t, err, board.RateLimited)
		mustGet(t, c, b, jobsURL+"?3")
		if len(p.ats()) != n {
			t.Errorf("requests came at %v, want %d of them", p.ats(), n)
		}
	}))
}

func TestAnAnswerTooLargeToKeepPushesNothingOut(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "large" {
			rng := rand.New(rand.NewPCG(1, 1))
			for range 5000 {
				w.Write([]byte{byte('a' + rng.IntN(26))})
			}
		}
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, _ *Courtesy) {
		c := p.open(Options{CacheBytes: 3 * entryCost})
		defer c.Close()
		mustGet(t, c, acme(), jobsURL+"?1")
		mustGet(t, c, acme(), jobsURL+"?large")
		mustGet(t, c, acme(), jobsURL+"?1")
		p.wantAts(0, time.Second)
	}))
}

// Conditions are for GET: a POST that only asks is asked again as it is.
func TestAPostIsAskedAgainWithoutACondition(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"v1"`)
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, c *Courtesy) {
		ctx, cancel := within(time.Hour)
		defer cancel()
		for range 2 {
			if _, err := c.Fetch(acme())(ctx, board.Request{URL: jobsURL, Method: "POST", Query: true}); err != nil {
				t.Fatal(err)
			}
			during(2 * time.Minute)
		}
		p.wantAts(0, 2*time.Minute)
		if got := p.last().header.Get("If-None-Match"); got != "" {
			t.Errorf("If-None-Match %q with a POST, want none", got)
		}
	}))
}

// Half an answer does not take the place of a whole one.
func TestABrokenAnswerDoesNotReplaceAKeptOne(t *testing.T) {
	synctest.Test(t, on(func() http.HandlerFunc {
		asked := 0
		return func(w http.ResponseWriter, r *http.Request) {
			asked++
			switch {
			case asked == 2:
				w.Write([]byte(`{"jobs":[`))
			case r.Header.Get("If-None-Match") != "":
				w.WriteHeader(http.StatusNotModified)
			default:
				w.Header().Set("Etag", `"v1"`)
				w.Write([]byte(`{"jobs":[]}`))
			}
		}
	}(), func(t *testing.T, p *play, c *Courtesy) {
		for _, want := range []string{`{"jobs":[]}`, `{"jobs":[`, `{"jobs":[]}`} {
			if a := mustGet(t, c, acme(), jobsURL); string(a.Body) != want {
				t.Errorf("the answer is %q, want %q", a.Body, want)
			}
			during(2 * time.Minute)
		}
	}))
}

// A 304 may bring a new tag for the same thing.
func TestA304RenewsTheTag(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("If-None-Match") {
		case "":
			status(w, 200, "Etag", `"v1"`)
			w.Write([]byte("one"))
		default:
			status(w, 304, "Etag", `"v2"`)
		}
	}, func(t *testing.T, p *play, c *Courtesy) {
		for range 3 {
			mustGet(t, c, acme(), jobsURL)
			during(2 * time.Minute)
		}
		if got := p.last().header.Get("If-None-Match"); got != `"v2"` {
			t.Errorf("the third time it was asked with %s, want the tag of the second", got)
		}
	}))
}

// A failure is no answer, so it may be asked again at the board's pace.
func TestLeastCountsFromTheLastAnswerOnly(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.Least = time.Hour
		get(c, b, time.Minute, jobsURL)
		get(c, b, time.Minute, jobsURL)
		p.wantAts(0, time.Second)
	}))
}

func TestTheLeastRecentlyUsedAnswerMakesRoom(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		c := p.open(Options{CacheBytes: 2*entryCost + 200})
		defer c.Close()
		get := func(page string) { mustGet(t, c, acme(), jobsURL+"?"+page) }
		get("1")
		get("2")
		get("1")
		get("3") // 2 goes
		get("1")
		get("3")
		if n := len(p.ats()); n != 3 {
			t.Fatalf("%d requests, want 3: one for each page", n)
		}
		get("2")
		if n := len(p.ats()); n != 4 {
			t.Errorf("%d requests, want 4: page 2 again", n)
		}
		if s := c.Stats().Cache; s.Bytes > 2*entryCost+200 || s.Entries != 2 || s.Evicted != 2 {
			t.Errorf("statistics %+v, want 2 entries within the limit and 2 evicted", s)
		}
	}))
}

func TestBoardsAreToldWhoAsks(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "layover-jobs/dev"},
		{Options{Version: "1.4"}, "layover-jobs/1.4"},
		{Options{Version: "1.4", Site: "https://layover.example"}, "layover-jobs/1.4 (+https://layover.example)"},
		{Options{Version: "1.4", Site: "https://layover.example", Contact: "jobs@acme.example"}, "layover-jobs/1.4 (+https://layover.example; jobs@acme.example)"},
	} {
		synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
			c := p.open(tt.o)
			defer c.Close()
			mustGet(t, c, acme(), jobsURL)
			if got := p.last().header.Get("User-Agent"); got != tt.want {
				t.Errorf("User-Agent %q, want %q", got, tt.want)
			}
		}))
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Version: "1\r\nX-Other: y"}, {Contact: "josé"}, {Site: "a\tb"}, {CacheBytes: -1},
	} {
		if c, err := New(o); err == nil {
			c.Close()
			t.Errorf("New(%+v) takes it, want an error", o)
		}
	}
}

func TestAnAnswerThatIsTooLargeIsMalformed(t *testing.T) {
	synctest.Test(t, on(body(strings.Repeat("x", 1001)), func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.MaxBody = 1000
		_, err := get(c, b, time.Minute, jobsURL)
		if got := wantTrouble(t, err, board.Malformed).Detail; got != "the answer is too large: more than 1000 bytes" {
			t.Errorf("detail %q", got)
		}
		p.wantAts(0)
	}))
}

// What a caller must not have is a fetch without an end.
func TestAFetchWithoutABudgetIsRefused(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		_, err := c.Fetch(acme())(context.Background(), board.Request{URL: jobsURL})
		wantTrouble(t, err, board.Unavailable)
		p.wantAts()
	}))
}

// J11, J12, J13: a hint that does not fit ends the fetch at once, with the time
// at which it may be asked again.
func TestJ12_AHintBeyondTheBudgetIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { status(w, 429, "Retry-After", "3600") }, func(t *testing.T, p *play, c *Courtesy) {
		began := time.Now()
		_, err := get(c, acme(), 10*time.Second, jobsURL)
		trouble := wantTrouble(t, err, board.RateLimited)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v, want nothing", took)
		}
		if in := time.Until(trouble.RetryAt); in != time.Hour {
			t.Errorf("it may be asked again in %v, want 1h", in)
		}
		if trouble.Answer.Status != 429 {
			t.Errorf("the answer's status is %d, want 429", trouble.Answer.Status)
		}
		p.wantAts(0)
	}))
}

func TestJ11_ABackOffIsNotBegunThatDoesNotFit(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, func(t *testing.T, p *play, c *Courtesy) {
		began := time.Now()
		_, err := get(c, acme(), 100*time.Millisecond, jobsURL)
		wantTrouble(t, err, board.Unavailable)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v, want nothing: the least back-off is longer than the budget", took)
		}
		p.wantAts(0)
	}))
}

// J14: what will not be better next time is asked once.
func TestJ14_APermanentFailureIsAskedOnce(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 410, 422} {
		synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }, func(t *testing.T, p *play, c *Courtesy) {
			if _, err := get(c, acme(), time.Minute, jobsURL); troubleOf(err) == nil {
				t.Errorf("status %d: error %v, want a Trouble", code, err)
			}
			p.wantAts(0)
		}))
	}
}

// J14, J15: a hint that fits is waited for, exactly, by all who ask that host.
func TestJ15_APauseIsSharedByAllWhoAskTheHost(t *testing.T) {
	var asked atomic.Int32
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			status(w, 429, "Retry-After", "20")
			return
		}
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, c *Courtesy) {
		done := make(chan error)
		for _, page := range []string{"1", "2", "3"} {
			go func() {
				_, err := get(c, acme(), time.Minute, jobsURL+"?"+page)
				done <- err
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		p.wantAts(0, 20*time.Second, 21*time.Second, 22*time.Second)
	}))
}

// J16, J18, J20: requests to one host are paced and bounded whatever asks;
// those to another host do not wait for them.
func TestJ16_RequestsToOneHostAreBoundedWhateverAsks(t *testing.T) {
	var now, most atomic.Int32
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "slow.") {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(10 * time.Second)
			now.Add(-1)
		}
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, c *Courtesy) {
		b := acme()
		b.AtOnce = 2
		done := make(chan error)
		ask := func(url string) {
			_, err := get(c, b, 2*time.Minute, url)
			done <- err
		}
		for _, page := range []string{"1", "2", "3", "4", "5"} {
			go ask("https://slow.acme.example/jobs?" + page)
		}
		during(time.Millisecond)
		began := time.Now()
		go ask("https://quick.acme.example/jobs")
		if err := <-done; err != nil || !time.Now().Equal(began) {
			t.Errorf("the other host answered after %v, with %v; want at once", time.Since(began), err)
		}
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d requests to the slow host at once, want 2", most.Load())
		}
		p.wantAts(0, time.Millisecond, time.Second, 10*time.Second, 11*time.Second, 20*time.Second)
	}))
}

// J17: pacing spends the operation's time, and what does not fit is not begun.
func TestJ17_PacingSpendsTheOperationsBudget(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		ctx, cancel := within(2500 * time.Millisecond)
		defer cancel()
		began := time.Now()
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = c.Fetch(acme())(ctx, board.Request{URL: jobsURL + "?" + strings.Repeat("x", n)})
		}
		wantTrouble(t, err, board.Deadline)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it ended after %v, want 2s: when the next request did not fit", took)
		}
		p.wantAts(0, time.Second, 2*time.Second)
	}))
}

// J19: slow is not dead while budget remains.
func TestJ19_ASlowBoardIsWaitedForWhileBudgetRemains(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(25 * time.Second):
		case <-r.Context().Done():
		}
		w.Write([]byte("one"))
	}
	synctest.Test(t, on(slow, func(t *testing.T, p *play, c *Courtesy) {
		began := time.Now()
		if _, err := get(c, acme(), 25*time.Second+time.Millisecond, jobsURL); err != nil || time.Since(began) != 25*time.Second {
			t.Errorf("after %v: %v; want the answer after 25s", time.Since(began), err)
		}
	}))
	synctest.Test(t, on(slow, func(t *testing.T, p *play, c *Courtesy) {
		began := time.Now()
		_, err := get(c, acme(), 10*time.Second, jobsURL)
		wantTrouble(t, err, board.Deadline)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v; want DeadlineExceeded after 10s", time.Since(began), err)
		}
	}))
}

// J21: the status says that it is a rate limit, also where no request was sent
// because the pause is still on.
func TestJ21_ARateLimitIsNamed(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) { status(w, 429, "Retry-After", "60") }, func(t *testing.T, p *play, c *Courtesy) {
		for _, url := range []string{jobsURL, jobsURL + "?other"} {
			_, err := get(c, acme(), 10*time.Second, url)
			if trouble := wantTrouble(t, err, board.RateLimited); time.Until(trouble.RetryAt) != time.Minute {
				t.Errorf("%s: it may be asked again in %v, want 1m", url, time.Until(trouble.RetryAt))
			}
		}
		p.wantAts(0)
	}))
}

func TestACancelIsToldFromADeadline(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, p *play, c *Courtesy) {
		ctx, cancel := within(time.Minute)
		time.AfterFunc(time.Second, cancel)
		_, err := c.Fetch(acme())(ctx, board.Request{URL: jobsURL})
		wantTrouble(t, err, board.Cancelled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled in it", err)
		}
	}))
}

// J13: a hint in the middle of the pages is never obeyed beyond a day, and what
// was read before stays read.
func TestJ13_AnAbsurdHintIsBounded(t *testing.T) {
	for _, hint := range []string{"1000000000000", "9223372036854775807", "99999999999999999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "page=3" {
				status(w, 429, "Retry-After", hint)
				return
			}
			w.Write([]byte("one"))
		}, func(t *testing.T, p *play, c *Courtesy) {
			mustGet(t, c, acme(), jobsURL+"?page=1")
			mustGet(t, c, acme(), jobsURL+"?page=2")
			_, err := get(c, acme(), time.Minute, jobsURL+"?page=3")
			if trouble := wantTrouble(t, err, board.RateLimited); time.Until(trouble.RetryAt) != 24*time.Hour {
				t.Errorf("Retry-After %s: it may be asked again in %v, want 24h", hint, time.Until(trouble.RetryAt))
			}
			mustGet(t, c, acme(), jobsURL+"?page=1")
			p.wantAts(0, time.Second, 2*time.Second)
		}))
	}
}

// J18: what reads one job waits for the same turn as what lists.
func TestJ18_DetailsAndListsShareTheHostsPace(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		list, detail := c.Fetch(acme()), c.Fetch(acme())
		ctx, cancel := within(time.Minute)
		defer cancel()
		done := make(chan error)
		for i := range 3 {
			go func() {
				_, err := detail(ctx, board.Request{URL: jobsURL + "/" + strings.Repeat("x", i+1)})
				done <- err
			}()
			go func() {
				_, err := list(ctx, board.Request{URL: jobsURL, Method: "POST", Query: true, Body: []byte{byte(i)}})
				done <- err
			}()
		}
		for range 6 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		p.wantAts(0, time.Second, 2*time.Second, 3*time.Second, 4*time.Second, 5*time.Second)
	}))
}

// J20: a board of which no pace is known is asked politely all the same.
func TestJ20_ThePaceIsBuiltIn(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, c *Courtesy) {
		b := &board.Board{Name: "acme", Title: "Acme", Hosts: []string{"acme.example"}}
		for i := range 4 {
			mustGet(t, c, b, jobsURL+strings.Repeat("x", i))
		}
		p.wantAts(0, 250*time.Millisecond, 500*time.Millisecond, 750*time.Millisecond)
	}))
}

// The monotonic clock stands still while a machine is suspended, and the
// system's may be set back: an answer ages by whichever went further.
func TestA54_AnAnswerAgesWhileTheMachineIsSuspended(t *testing.T) {
	at := time.Now()
	for _, tt := range []struct{ awake, step, want time.Duration }{
		{time.Minute, 0, time.Minute},
		{time.Minute, 8 * time.Hour, 8*time.Hour + time.Minute},
		{time.Hour, -3 * time.Hour, time.Hour},
	} {
		now := stepped(at.Add(tt.awake), tt.step)
		if now.Sub(at) != tt.awake || now.Round(0).Sub(at.Round(0)) != tt.awake+tt.step {
			t.Fatalf("stepped by %v: %v and %v", tt.step, now.Sub(at), now.Round(0).Sub(at.Round(0)))
		}
		if got := age(at, now); got != tt.want {
			t.Errorf("%v awake and a step of %v: it is %v old, want %v", tt.awake, tt.step, got, tt.want)
		}
	}
}

// stepped is t on a system clock that was stepped by whole seconds. Package time
// has no way to say so, hence the look into its layout: the seconds are bits 30
// to 62 of the first word.
func stepped(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(by/time.Second)) << 30
	return t
}

// The boards as they are, with the limits that are known of them: at the pace of
// the table none is ever refused, and what was read is not asked for again.
func TestJ20_NoBoardEverHasToRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := fakeboards.Generate(fakeboards.Plan{Seed: 1, Companies: 2, Jobs: 60})
		fake := fakeboards.New(world)
		fake.SetLimits(true)
		p := newPlay(t, fake)
		defer p.pipe.Close()
		c := p.open(Options{})
		defer c.Close()
		read := func() {
			var wg sync.WaitGroup
			for _, b := range board.All {
				companies := world.Boards[b.Name]
				if b.Parse == nil {
					companies = companies[:1]
				}
				for _, company := range companies {
					wg.Go(func() { readAll(t, c, b, company.Slug) })
				}
			}
			wg.Wait()
		}
		read()
		asked := len(fake.Requests())
		for _, r := range fake.Requests() {
			if r.Status == http.StatusTooManyRequests {
				t.Errorf("%s%s was refused", r.Host, r.Path)
			}
		}
		read()
		if again := len(fake.Requests()) - asked; again != 0 || asked < 2*len(board.All) {
			t.Errorf("%d requests, and %d more for the same again at once; want none", asked, again)
		}
	})
}

// readAll reads all pages of a listing.
func readAll(t *testing.T, c *Courtesy, b *board.Board, slug string) {
	ctx, cancel := within(10 * time.Minute)
	defer cancel()
	var in board.Listing
	if b.Parse != nil {
		company, err := b.Parse(slug)
		if err != nil {
			t.Error(err)
			return
		}
		in.Company = company
	}
	for pages, token := 0, ""; ; pages++ {
		page, err := b.Page(ctx, c.Fetch(b), in, token)
		if err != nil || pages > 100 {
			t.Errorf("%s %s: page %d: %v", b.Name, slug, pages, err)
			return
		}
		if token = page.Next; token == "" {
			return
		}
	}
}

// Boards that share a host must agree about its pace: the first one that asks
// makes the lane.
func TestBoardsThatShareAHostAgreeAboutIt(t *testing.T) {
	type facts struct {
		every   time.Duration
		atOnce  int
		maxBody int64
	}
	seen := make(map[string]facts)
	for _, b := range board.All {
		f := facts{b.Every, b.AtOnce, b.MaxBody}
		for _, host := range b.Hosts {
			if before, ok := seen[host]; ok && before != f {
				t.Errorf("%s says %+v of %s, another board %+v", b.Name, f, host, before)
			}
			seen[host] = f
		}
	}
}
