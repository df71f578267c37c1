package fakeboards

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// caller asks boards over connections in memory.
type caller struct {
	*Server
	client *http.Client
}

// open opens the boards of a world, with a script, until the test ends.
func open(t *testing.T, plan Plan, script string) caller {
	t.Helper()
	rules, err := ReadScript(strings.NewReader(script))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Generate(plan))
	s.Play(rules)
	pipe := NewPipe(s)
	transport := &http.Transport{DialContext: pipe.Dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		pipe.Close()
	})
	return caller{s, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

func (c caller) get(t *testing.T, ctx context.Context, url string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, body, err
}

// mustGet is get for answers that come whole.
func (c caller) mustGet(t *testing.T, url string) (*http.Response, []byte) {
	t.Helper()
	res, body, err := c.get(t, t.Context(), url)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return res, body
}

const (
	remotiveURL = "http://remotive.com/api/remote-jobs"
	arbeitURL   = "http://www.arbeitnow.com/api/job-board-api"
)

func TestADelayIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{board: remotive, from: 2, times: 1, delay: 1500ms}]`)
		for i, want := range []time.Duration{0, 1500 * time.Millisecond, 0} {
			begin := time.Now()
			if res, _ := c.mustGet(t, remotiveURL); res.StatusCode != 200 {
				t.Errorf("request %d: status %d", i+1, res.StatusCode)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("request %d took %v, want %v", i+1, took, want)
			}
		}
	})
}

func TestAStatusComesWithItsHeadersAndText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `
- {board: remotive, times: 1, status: 429, text: '{"slow":"down"}', headers: {Retry-After: "7"}}
- {board: remotive, times: 1, status: 503, retry_date: 90s}
`)
		res, body := c.mustGet(t, remotiveURL)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "7" || string(body) != `{"slow":"down"}` ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("first answer: %d %v %q", res.StatusCode, res.Header, body)
		}
		// The second rule was passed over by the first request, and counted it.
		if res, _ = c.mustGet(t, remotiveURL); res.StatusCode != 200 {
			t.Errorf("second answer: status %d, want 200", res.StatusCode)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{status: 503, retry_date: 90s}]`)
		res, _ := c.mustGet(t, remotiveURL)
		if want := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat); res.Header.Get("Retry-After") != want {
			t.Errorf("Retry-After %q, want %q", res.Header.Get("Retry-After"), want)
		}
	})
}

func TestAStalledBodyEndsWithTheCallerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{board: remotive, stall: 100}]`)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		begin := time.Now()
		_, body, err := c.get(t, ctx, remotiveURL)
		if len(body) != 100 || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 4*time.Second {
			t.Errorf("got %d bytes, %v after %v", len(body), err, time.Since(begin))
		}
		synctest.Wait() // the handler is gone, or the bubble would not end
	})
}

func TestClosingThePipeEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Generate(Plan{}))
		s.Play(Script{{Delay: Duration(time.Hour)}})
		pipe := NewPipe(s)
		client := &http.Client{Transport: &http.Transport{DialContext: pipe.Dial}}
		begin, done := time.Now(), make(chan error)
		go func() {
			_, err := client.Get(remotiveURL)
			done <- err
		}()
		synctest.Wait()
		pipe.Close()
		if err := <-done; err == nil || time.Since(begin) != 0 {
			t.Errorf("the request ended with %v after %v", err, time.Since(begin))
		}
		if _, err := pipe.Dial(t.Context(), "tcp", "remotive.com:443"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dialling afterwards gave %v", err)
		}
	})
}

func TestACutBodyIsNoWholeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{board: remotive, cut: 100}]`)
		_, body, err := c.get(t, t.Context(), remotiveURL)
		if len(body) != 100 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %d bytes, %v", len(body), err)
		}
	})
}

func TestATruncatedBodyIsAWholeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{board: remotive, truncate: 100}]`)
		res, body := c.mustGet(t, remotiveURL)
		if len(body) != 100 || res.ContentLength != 100 || json.Valid(body) {
			t.Errorf("got %d bytes of %d", len(body), res.ContentLength)
		}
	})
}

func TestABodyDripsAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{status: 200, text: "0123456789", drip: 4, pace: 50ms}]`)
		begin := time.Now()
		if _, body := c.mustGet(t, remotiveURL); string(body) != "0123456789" || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("got %q after %v", body, time.Since(begin))
		}
	})
}

func TestAResetIsOneOnARealPort(t *testing.T) {
	s := New(World{})
	s.Play(Script{{Reset: true}})
	server := httptest.NewServer(s)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: remotive.com\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading gave %v, want a reset connection", err)
	}
	if seen := s.Requests(); len(seen) != 1 || seen[0].Status != 0 {
		t.Errorf("requests %+v, want one with no status", seen)
	}
}

func TestAChallengeIsAPageWith200(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{challenge: true}]`)
		res, body := c.mustGet(t, remotiveURL)
		if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || !bytes.Contains(body, []byte("browser")) {
			t.Errorf("got %d %s %q", res.StatusCode, res.Header.Get("Content-Type"), body)
		}
	})
}

func TestARedirectLeadsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{redirect: "https://169.254.169.254/latest"}]`)
		if res, _ := c.mustGet(t, remotiveURL); res.StatusCode != 302 || res.Header.Get("Location") != "https://169.254.169.254/latest" {
			t.Errorf("got %d to %q", res.StatusCode, res.Header.Get("Location"))
		}
	})
}

func TestABombIsSmallOnTheWire(t *testing.T) {
	s := New(World{})
	s.Play(Script{{Bomb: 100}})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", remotiveURL, nil))
	if n := w.Body.Len(); n > 200<<10 {
		t.Errorf("%d bytes on the wire", n)
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); n != 100<<20 || err != nil {
		t.Errorf("unpacks to %d bytes, %v", n, err)
	}
}

func TestContentTypesAndMarksAreChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{type: application/feed+json, bom: true, headers: {ETag: ""}}]`)
		res, body := c.mustGet(t, remotiveURL)
		if res.Header.Get("Content-Type") != "application/feed+json" || !bytes.HasPrefix(body, []byte("\xef\xbb\xbf{")) || res.Header.Get("ETag") != "" {
			t.Errorf("got %v %q", res.Header, body[:5])
		}
	})
}

func TestAPageIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{Jobs: 100}, `[{board: arbeitnow, from: 3, times: 1, repeat: true}]`)
		var bodies [4][]byte
		for i := range bodies {
			_, bodies[i] = c.mustGet(t, arbeitURL+"?page="+string(rune('1'+i)))
		}
		if !bytes.Equal(bodies[1], bodies[2]) {
			t.Error("the third page is not the second again")
		}
		if bytes.Equal(bodies[0], bodies[1]) || bytes.Equal(bodies[2], bodies[3]) {
			t.Error("other pages are the same")
		}
	})
}

func TestAListShifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{Companies: 1, Jobs: 10}, `
- {board: remotive, from: 2, times: 1, shift: 2}
- {board: remotive, from: 3, times: 1, shift: -3}
`)
		before := c.Jobs("remotive")
		c.mustGet(t, remotiveURL)
		c.mustGet(t, remotiveURL)
		grown := c.Jobs("remotive")
		if len(grown) != 12 || !reflect.DeepEqual(grown[2:], before) || grown[0].Local == grown[1].Local {
			t.Fatalf("the list has %d jobs, want two new ones before the old ten", len(grown))
		}
		c.mustGet(t, remotiveURL)
		if left := c.Jobs("remotive"); !reflect.DeepEqual(left, before[1:]) {
			t.Errorf("the list has %d jobs, want nine of the old ones", len(left))
		}
	})
}

func TestLimitsAreThoseOfTheBoards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, ``)
		c.SetLimits(true)
		statuses := func(n int) (got []int) {
			for range n {
				res, _ := c.mustGet(t, remotiveURL)
				got = append(got, res.StatusCode)
			}
			return got
		}
		if got := statuses(3); !reflect.DeepEqual(got, []int{200, 200, 429}) {
			t.Errorf("three requests at once: %v", got)
		}
		time.Sleep(59 * time.Second)
		res, _ := c.mustGet(t, remotiveURL)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("after 59 s: %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
		time.Sleep(time.Second)
		if got := statuses(3); !reflect.DeepEqual(got, []int{200, 200, 429}) {
			t.Errorf("a minute later: %v", got)
		}
		c.SetLimits(false)
		if got := statuses(2); !reflect.DeepEqual(got, []int{200, 200}) {
			t.Errorf("without limits: %v", got)
		}
	})
}

// Eight at once, ten a second, and headers that say so.
func TestSmartRecruitersTellsItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{times: 9, delay: 2s}]`)
		c.SetLimits(true)
		const url = "http://api.smartrecruiters.com/v1/companies/Acme1/postings"
		statuses := make(map[int]int)
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() {
				res, _ := c.mustGet(t, url)
				mu.Lock()
				defer mu.Unlock()
				statuses[res.StatusCode]++
			})
		}
		all.Wait()
		if statuses[200] != 8 || statuses[429] != 1 {
			t.Errorf("nine at once: %v, want eight answers and one refusal", statuses)
		}
		time.Sleep(time.Second)
		for i := range 11 {
			res, _ := c.mustGet(t, url)
			left, free := res.Header.Get("X-RateLimit-Remaining"), res.Header.Get("X-RateLimit-Concurrent-Remaining")
			want := 200
			if i == 10 {
				want = 429
			}
			if res.StatusCode != want || left != strconv.Itoa(max(9-i, 0)) || free != "7" || res.Header.Get("X-RateLimit-Limit") != "10" {
				t.Errorf("request %d: %d, %s left, %s free; want %d, %d, 7", i+1, res.StatusCode, left, free, want, max(9-i, 0))
			}
		}
	})
}

func TestWorkableRefusesWithAPageForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, ``)
		c.SetLimits(true)
		const url = "http://apply.workable.com/api/v1/widget/accounts/acme"
		for range 20 {
			c.mustGet(t, url)
		}
		res, body := c.mustGet(t, url)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "3600" || !bytes.Contains(body, []byte("1015")) {
			t.Errorf("got %d, Retry-After %q: %q", res.StatusCode, res.Header.Get("Retry-After"), body)
		}
	})
}

func TestRequestsAreCountedAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, `[{path: "*/jobs", status: 500}]`)
		c.mustGet(t, remotiveURL+"?search=go")
		time.Sleep(time.Second)
		c.mustGet(t, "http://acme.wd1.myworkdayjobs.com/wday/cxs/acme/External/jobs")
		c.mustGet(t, "http://nobody.example/jobs")
		for _, count := range []struct {
			host, path string
			want       int
		}{
			{"", "", 3}, {"remotive.com", "", 1}, {"*.myworkdayjobs.com", "/wday/*/jobs", 1}, {"", "*/jobs", 2}, {"", "/wday", 0},
		} {
			if got := c.Count(count.host, count.path); got != count.want {
				t.Errorf("Count(%q, %q) = %d, want %d", count.host, count.path, got, count.want)
			}
		}
		seen := c.Requests()
		if len(seen) != 3 || seen[1].At.Sub(seen[0].At) != time.Second {
			t.Fatalf("requests %+v", seen)
		}
		if s := seen[0]; s.Board != "remotive" || s.Query != "search=go" || s.Status != 200 || s.Rule != 0 {
			t.Errorf("first request %+v", s)
		}
		if s := seen[1]; s.Board != "workday" || s.Status != 500 || s.Rule != 1 {
			t.Errorf("second request %+v", s)
		}
		if s := seen[2]; s.Board != "" || s.Status != 500 || s.Rule != 1 {
			t.Errorf("third request %+v", s)
		}
	})
}

func TestAHostWithoutABoardIsMisdirected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, ``)
		for _, host := range []string{"nobody.example", "wd1.myworkdayjobs.com", "a.b.c.myworkdayjobs.com", ".wd1.myworkdayjobs.com", "remotive.com.evil.example"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = host
			c.ServeHTTP(w, r)
			if w.Code != http.StatusMisdirectedRequest {
				t.Errorf("%s: status %d", host, w.Code)
			}
		}
	})
}

func TestAnAnswerThatIsKnownIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Plan{}, ``)
		res, _ := c.mustGet(t, remotiveURL)
		r := httptest.NewRequest("GET", remotiveURL, nil)
		r.Header.Set("If-None-Match", res.Header.Get("ETag"))
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("got %d with %d bytes", w.Code, w.Body.Len())
		}
	})
}

func TestEqualPlansMakeEqualWorlds(t *testing.T) {
	plan := Plan{Seed: 7, Now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Jobs: 60}
	w := Generate(plan)
	if !reflect.DeepEqual(w, Generate(plan)) {
		t.Error("two worlds of one plan differ")
	}
	plan.Seed = 8
	if reflect.DeepEqual(w.Boards, Generate(plan).Boards) {
		t.Error("two worlds of different seeds are the same")
	}
	languages := make(map[string]bool)
	for board := range w.Boards {
		locals := make(map[string]bool)
		for _, j := range w.Jobs(board) {
			languages[j.Language] = true
			if id := j.Slug + "/" + j.Local; locals[id] {
				t.Errorf("%s has the id %s twice", board, id)
			} else {
				locals[id] = true
			}
		}
		if len(locals) != 180 {
			t.Errorf("%s has %d jobs, want 180", board, len(locals))
		}
	}
	if len(languages) < 15 {
		t.Errorf("%d languages", len(languages))
	}
}

func TestSharedJobsAreOnEveryBoard(t *testing.T) {
	w := Generate(Plan{Companies: 2, Jobs: 10, Shared: 4})
	on := make(map[string]map[string]bool) // key: boards
	what := make(map[string]string)
	for board := range w.Boards {
		for _, j := range w.Jobs(board) {
			if on[j.Key] == nil {
				on[j.Key], what[j.Key] = make(map[string]bool), j.Company+j.Title+j.Places[0].City
			}
			on[j.Key][board] = true
			if got := j.Company + j.Title + j.Places[0].City; got != what[j.Key] {
				t.Errorf("%s is %q on %s, %q elsewhere", j.Key, got, board, what[j.Key])
			}
		}
	}
	shared := 0
	for _, boards := range on {
		if len(boards) == len(w.Boards) {
			shared++
		} else if len(boards) != 1 {
			t.Errorf("a job is on %d boards", len(boards))
		}
	}
	if shared != 8 {
		t.Errorf("%d jobs are on every board, want 8", shared)
	}
}
