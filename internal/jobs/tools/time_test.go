package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"layover/budget"
	"layover/internal/jobs/board"
)

// took is how long a call over stdio takes whose boards do not answer.
func took(t *testing.T, o Options, arguments string) (d time.Duration, answer message) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(o, listed("quick", jobs("quick", 2)...), hanging("slow", nil))
		begun := time.Now()
		answer = r.once(t, "jobs.list", arguments)
		d = answer.At.Sub(begun)
	})
	return d, answer
}

func TestJ50_ACallThatSaysNothingIsAnsweredBelow60Seconds(t *testing.T) {
	d, answer := took(t, Options{}, `{"boards":["quick","slow"]}`)
	if want := 45*time.Second - 250*time.Millisecond; d != want {
		t.Errorf("it was answered after %v, want %v: the reserve before 45 s", d, want)
	}
	l := answer.list(t)
	if len(l.Jobs) != 2 || l.Complete || l.StopReason != "deadline" || answer.Result.IsError {
		t.Errorf("got %d jobs, complete %v, stop %q, error %v; want what the quick board has, and that the time was up",
			len(l.Jobs), l.Complete, l.StopReason, answer.Result.IsError)
	}
}

func TestJ51_NoCallTakesLongerThanTheLongestAndItsCursorGoesOn(t *testing.T) {
	d, answer := took(t, Options{}, `{"boards":["quick","slow"],"timeout_seconds":86400}`)
	if want := 210*time.Second - 250*time.Millisecond; d != want {
		t.Errorf("it was answered after %v, want %v: below 4 minutes", d, want)
	}
	if answer.list(t).Cursor == "" {
		t.Error("there is no cursor to go on with")
	}
}

func TestJ4_TheEarliestOfAllDeadlinesIsTheCalls(t *testing.T) {
	for _, test := range []struct {
		name, arguments string
		want            time.Duration
	}{
		{"seconds", `{"boards":["slow"],"timeout_seconds":10}`, 10 * time.Second},
		{"parts of seconds", `{"boards":["slow"],"timeout_seconds":0.5}`, 500 * time.Millisecond},
		{"deadline", `{"boards":["slow"],"deadline":"2000-01-01T00:01:40Z"}`, 100 * time.Second}, // a bubble begins on 2000-01-01
		{"the deadline of both", `{"boards":["slow"],"deadline":"2000-01-01T01:00:20+01:00","timeout_seconds":30}`, 20 * time.Second},
		{"the seconds of both", `{"boards":["slow"],"deadline":"2000-01-01T00:01:00Z","timeout_seconds":30}`, 30 * time.Second},
		{"a deadline far away", `{"boards":["slow"],"deadline":"2099-01-01T00:00:00Z"}`, 210 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, answer := took(t, Options{}, test.arguments)
			if reserve := min(test.want/10, 250*time.Millisecond); d != test.want-reserve {
				t.Errorf("%s was answered after %v, want %v; %s", test.arguments, d, test.want-reserve, answer.text())
			}
			if got := time.Duration(answer.list(t).Time.LimitMS) * time.Millisecond; got != test.want {
				t.Errorf("the answer says that it had %v, want %v", got, test.want)
			}
		})
	}
}

func TestADeadlineThatIsPastIsSaid(t *testing.T) {
	d, answer := took(t, Options{}, `{"boards":["slow"],"deadline":"1999-12-31T23:59:00Z"}`)
	if d != 0 || !answer.Result.IsError || !strings.Contains(answer.text(), "deadline: 1999-12-31T23:59:00Z: this is past") {
		t.Errorf("after %v: error %v, %q", d, answer.Result.IsError, answer.text())
	}
}

func TestHeadersOfAPOSTCountToo(t *testing.T) {
	for _, test := range []struct {
		name, arguments string
		header          http.Header
		want            time.Duration
		status          int
	}{
		{"header alone", `{"boards":["slow"]}`, http.Header{"Operation-Timeout": {"90s"}}, 90 * time.Second, 200},
		{"header first", `{"boards":["slow"],"timeout_seconds":30}`, http.Header{"Operation-Timeout": {"20s"}}, 20 * time.Second, 200},
		{"argument first", `{"boards":["slow"],"timeout_seconds":10}`, http.Header{"Operation-Timeout": {"20s"}}, 10 * time.Second, 200},
		{"earliest header", `{"boards":["slow"]}`, http.Header{"Grpc-Timeout": {"20S"}, "X-Envoy-Upstream-Rq-Timeout-Ms": {"8000"}}, 8 * time.Second, 200},
		{"instant", `{"boards":["slow"]}`, http.Header{"Operation-Deadline": {"2000-01-01T00:00:30Z"}}, 30 * time.Second, 200},
		{"neither", `{"boards":["slow"]}`, nil, 45 * time.Second, 200},
		{"malformed", `{"boards":["slow"]}`, http.Header{"Operation-Timeout": {"soon"}}, 0, 400},
		{"past", `{"boards":["slow"]}`, http.Header{"Operation-Deadline": {"1999-01-01T00:00:30Z"}}, 0, 504},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options{}, hanging("slow", nil))
				w := r.web(t)
				defer w.close()
				begun := time.Now()
				resp, err := w.post(t.Context(), callLine(1, "jobs.list", test.arguments, ""), test.header)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != test.status {
					t.Errorf("status %d, want %d", resp.StatusCode, test.status)
				}
				came := events(t, resp)
				if test.status == 200 && len(came) != 1 {
					t.Fatalf("got %d messages, want the answer", len(came))
				}
				want := test.want - min(test.want/10, 250*time.Millisecond)
				if d := time.Since(begun); d != want {
					t.Errorf("it was answered after %v, want %v", d, want)
				}
			})
		})
	}
}

func TestJ52_SilenceIsNoLongerThanAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{}, listed("quick", jobs("quick", 2)...), hanging("slow", nil))
		c := r.connect(t, t.Context())
		begun := time.Now()
		c.call(1, "jobs.list", `{"boards":["quick","slow"]}`, `{"progressToken":"p1"}`)
		var at []time.Duration
		last := -1.0
		for m := range c.came {
			since := m.At.Sub(begun)
			if m.ID != nil {
				at = append(at, since)
				break
			}
			p := m.progress(t)
			if since == 44750*time.Millisecond && p.Progress > last && strings.HasPrefix(p.Message, "2 of 2") {
				continue // that the time of the slow one is up: it may be told just before the answer
			}
			at = append(at, since)
			if p.Token != "p1" || p.Progress <= last || p.Total != 3 || int(p.Progress) != 1 {
				t.Errorf("%s after %v: want the token p1, more than %v, 1 of 2 sources and the answer itself", m.Params, m.At.Sub(begun), last)
			}
			last = p.Progress
			if want := "1 of 2 sources answered, 1 pages, 2 postings read, 2 match"; !strings.HasPrefix(p.Message, want) {
				t.Errorf("progress %q, want %q", p.Message, want)
			}
		}
		want := "[0s 10s 20s 30s 40s 44.75s]"
		if got := fmt.Sprint(at); got != want {
			t.Errorf("heard something after %s, want %s", got, want)
		}
		synctest.Wait()
		if len(c.came) > 0 {
			t.Errorf("after the answer came %+v", <-c.came)
		}
		c.close()
	})
}

func TestJ52_NothingIsSentWithoutAToken(t *testing.T) {
	d, answer := took(t, Options{}, `{"boards":["slow"]}`) // fails if anything comes before the answer
	if answer.ID != 1.0 || d == 0 {
		t.Errorf("got %+v after %v", answer, d)
	}
}

func TestProgressIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := 0
		busy := &board.Board{Name: "busy", Title: "busy", Page: func(ctx context.Context, _ board.Fetch, _ board.Listing, _ string) (board.Page, error) {
			time.Sleep(time.Millisecond)
			pages++
			return board.Page{Jobs: jobs("busy", pages)[pages-1:], Received: 1, Total: -1, Next: fmt.Sprint(pages)}, nil
		}}
		r := newRig(Options{}, busy)
		c := r.connect(t, t.Context())
		c.call(1, "jobs.list", `{"boards":["busy"],"query":"nowhere"}`, `{"progressToken":7}`)
		notes := 0
		for m := range c.came {
			if m.ID != nil {
				break
			}
			if m.progress(t).Token != 7.0 {
				t.Errorf("%s: want the token 7, as it was sent", m.Params)
			}
			notes++
		}
		if pages != 200 || notes < 1 || notes > 2 {
			t.Errorf("%d notifications for %d pages in 200 ms, want 1 at its begin and at most one more", notes, pages)
		}
		c.close()
	})
}

func TestJ53_TheReasonOfACancelIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newRig(Options{}, hanging("slow", ended))
		c := r.connect(t, t.Context())
		c.call(7, "jobs.list", `{"boards":["slow"]}`, "")
		time.Sleep(time.Second)
		begun := time.Now()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"user\npressed  stop"}}`)
		<-ended
		if d := time.Since(begun); d != 0 {
			t.Errorf("the request to the board ended %v after the cancel", d)
		}
		c.close()
		if m, ok := <-c.came; ok {
			t.Errorf("a cancelled call was answered: %+v", m)
		}
		if !strings.Contains(r.logged.String(), `reason="user pressed stop"`) {
			t.Errorf("the log does not have the reason:\n%s", r.logged)
		}
	})
}

func TestWhatIsNoMessageIsRefusedAndTheClientGoesOn(t *testing.T) {
	r := newRig(Options{}, listed("quick", jobs("quick", 1)...))
	c := r.connect(t, t.Context())
	for _, test := range []struct {
		line, want string
		code       int
	}{
		{"{garbage", "the line is not JSON", -32700},
		{"[]", "the batch is empty", -32600},
		{`"text"`, "", -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "", -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "", -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "the batch has the id 1 twice", -32600},
		{strings.Repeat(" ", 100_000) + strings.Repeat("a", maxMessage), "the line has more than 1048576 bytes", -32600},
	} {
		c.send(test.line)
		m := <-c.came
		if m.ID != nil || m.Error == nil || m.Error.Code != test.code || !strings.Contains(m.Error.Message, test.want) {
			t.Errorf("%.60s: got %+v, want the error %d %q without an id", test.line, m, test.code, test.want)
		}
	}
	c.send("  ")
	if m := c.ask("jobs.list", `{"boards":["quick"]}`); len(m.list(t).Jobs) != 1 {
		t.Errorf("got %+v", m)
	}
	c.close()
}

func TestALineWithoutItsEndIsReadAtTheEndOfTheInput(t *testing.T) {
	r := newRig(Options{}, listed("quick", jobs("quick", 1)...))
	c := r.connect(t, t.Context())
	if _, err := c.in.Write([]byte(callLine(1, "jobs.list", `{"boards":["quick"]}`, ""))); err != nil {
		t.Fatal(err)
	}
	c.close()
	if m := <-c.came; m.ID != 1.0 || len(m.list(t).Jobs) != 1 {
		t.Errorf("got %+v", m)
	}
}

func TestACancelOfWhatIsNoCallChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{}, listed("quick", jobs("quick", 1)...))
		c := r.connect(t, t.Context())
		for _, params := range []string{`{"requestId":99}`, `{"requestId":"x"}`, `{"requestId":{}}`, `{}`} {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`)
		}
		if m := c.ask("jobs.list", `{"boards":["quick"]}`); len(m.list(t).Jobs) != 1 {
			t.Errorf("got %+v", m)
		}
		c.close()
	})
}

// aborted runs a call over HTTP whose client goes away after a second, and
// returns how long the board's request went on.
func aborted(t *testing.T, body string, header http.Header) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newRig(Options{}, hanging("slow", ended))
		w := r.web(t)
		defer w.close()
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			resp, err := w.post(ctx, body, header)
			if err == nil {
				resp.Body.Close()
			}
		}()
		time.Sleep(time.Second)
		begun := time.Now()
		leave()
		<-ended
		if d := time.Since(begun); d > 100*time.Millisecond {
			t.Errorf("the request to the board ended %v after its client left", d)
		}
		synctest.Wait()
		if n := len(r.posts.byToken) + len(r.calls.byKey); n != 0 {
			t.Errorf("%d calls and POSTs are remembered after their end", n)
		}
	})
}

func TestJ54_AnAbortedPOSTEndsTheRequestsToTheBoards(t *testing.T) {
	t.Run("2025-06-18", func(t *testing.T) {
		aborted(t, callLine(1, "jobs.list", `{"boards":["slow"]}`, ""), http.Header{"Mcp-Protocol-Version": {"2025-06-18"}})
	})
	t.Run("2026-07-28", func(t *testing.T) {
		body, header := modern(1, "jobs.get", `{"id":"slow//1"}`, "")
		aborted(t, body, header)
	})
}

func TestACallOverHTTPIsCancelledByItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newRig(Options{}, hanging("slow", ended))
		w := r.web(t)
		defer w.close()
		initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
		sessions := make([]string, 2)
		for i := range sessions {
			resp, err := w.post(t.Context(), initialize, nil)
			if err != nil {
				t.Fatal(err)
			}
			events(t, resp)
			sessions[i] = resp.Header.Get("Mcp-Session-Id")
		}
		if sessions[0] == sessions[1] || len(sessions[0]) < 20 {
			t.Fatalf("sessions %q: want two that nobody guesses", sessions)
		}
		answered := make(chan []message, 1)
		go func() {
			resp, err := w.post(t.Context(), callLine(5, "jobs.list", `{"boards":["slow"]}`, ""), http.Header{"Mcp-Session-Id": {sessions[0]}})
			if err != nil {
				t.Error(err)
				return
			}
			answered <- events(t, resp)
		}()
		cancel := func(session string) {
			resp, err := w.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}`, http.Header{"Mcp-Session-Id": {session}})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		time.Sleep(time.Second)
		cancel(sessions[1])
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatal("another client's session cancelled the call")
		}
		cancel(sessions[0])
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("the request to the board ended with %v, want the reason of the cancel", err)
		}
		<-answered
	})
}

func TestJ55_TheEndOfTheInputWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lazy := listed("lazy", jobs("lazy", 1)...)
		page := lazy.Page
		lazy.Page = func(ctx context.Context, f board.Fetch, l board.Listing, token string) (board.Page, error) {
			time.Sleep(3 * time.Second)
			return page(ctx, f, l, token)
		}
		r := newRig(Options{}, lazy, hanging("slow", nil))
		c := r.connect(t, t.Context())
		begun := time.Now()
		c.call(1, "jobs.list", `{"boards":["lazy"]}`, "")
		c.call(2, "jobs.list", `{"boards":["lazy","slow"]}`, "")
		c.close()
		if d := time.Since(begun); d != 5*time.Second {
			t.Errorf("the server ended %v after the input, want 5 s: the drain", d)
		}
		one, two := <-c.came, <-c.came
		if one.ID != 1.0 || one.At.Sub(begun) != 3*time.Second || !one.list(t).Complete {
			t.Errorf("after %v came %+v, want the whole answer to 1 after 3 s", one.At.Sub(begun), one)
		}
		if l := two.list(t); two.ID != 2.0 || len(l.Jobs) != 1 || l.Complete || l.StopReason != "cancelled" {
			t.Errorf("after %v came %+v, want what there was for 2", two.At.Sub(begun), two)
		}
	})
}

func TestAStopAnswersWhatIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Drain: time.Second}, hanging("slow", nil))
		ctx, stop := context.WithCancelCause(t.Context())
		c := r.connect(t, ctx)
		c.call(1, "jobs.list", `{"boards":["slow"]}`, "")
		synctest.Wait()
		begun := time.Now()
		stop(errors.New("SIGTERM"))
		m := <-c.came
		if d := m.At.Sub(begun); m.ID != 1.0 || d != time.Second {
			t.Errorf("%v after the stop came %+v, want the answer after 1 s", d, m)
		}
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
		c.in.Close()
	})
}

func TestJ62_ProgressComesOnThePOSTsOwnStream(t *testing.T) {
	check := func(t *testing.T, body string, header http.Header) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(Options{}, hanging("slow", nil))
			w := r.web(t)
			defer w.close()
			begun := time.Now()
			resp, err := w.post(t.Context(), body, header)
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Header.Get("X-Accel-Buffering"); got != "no" {
				t.Errorf("X-Accel-Buffering %q: what is between would hold the stream back", got)
			}
			var at []time.Duration
			for _, m := range events(t, resp) {
				since := m.At.Sub(begun).Round(time.Second)
				if m.ID == nil && m.progress(t).Token != "p" {
					t.Errorf("%+v is not this call's progress", m)
				}
				if m.ID != nil || since != 25*time.Second { // then it may be told that the board's time is up
					at = append(at, since)
				}
			}
			if got := fmt.Sprint(at); got != "[10s 20s 25s]" {
				t.Errorf("messages came after %s, want progress, and the answer after 25 s", got)
			}
		})
	}
	t.Run("2025-06-18", func(t *testing.T) {
		check(t, callLine(1, "jobs.list", `{"boards":["slow"],"timeout_seconds":25}`, `{"progressToken":"p"}`), nil)
	})
	t.Run("2026-07-28", func(t *testing.T) {
		body, header := modern(1, "jobs.list", `{"boards":["slow"],"timeout_seconds":25}`, "p")
		check(t, body, header)
	})
}

func TestACallTooManyIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{MaxCalls: 2}, hanging("slow", nil))
		c := r.connect(t, t.Context())
		c.call(1, "jobs.list", `{"boards":["slow"],"timeout_seconds":10}`, "")
		c.call(2, "jobs.get", `{"id":"slow//1","timeout_seconds":10}`, "")
		synctest.Wait()
		begun := time.Now()
		c.call(3, "jobs.list", `{"boards":["slow"]}`, "")
		m := <-c.came
		if want := "server: 2 calls are in progress"; m.ID != 3.0 || !m.Result.IsError || !strings.HasPrefix(m.text(), want) || !m.At.Equal(begun) {
			t.Errorf("after %v came %v %q, want at once the error %q", m.At.Sub(begun), m.ID, m.text(), want)
		}
		<-c.came
		<-c.came
		if m := c.ask("jobs.list", `{"boards":["slow"],"timeout_seconds":1}`); m.Result.IsError {
			t.Errorf("with all calls answered the next is refused: %q", m.text())
		}
		c.close()
	})
}

// A notification that is on its way when the call ends is waited for: else it
// could follow the answer.
func TestNoProgressIsUnderWayWhenTheAnswerIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := budget.For(t.Context(), time.Minute)
		defer end()
		h := &heart{changed: make(chan struct{}, 1), ended: make(chan struct{})}
		ctx, h.end = context.WithCancel(ctx)
		slow := 5 * time.Second // to write
		go h.run(ctx, time.Second, func(*mcp.ProgressNotificationParams) error {
			time.Sleep(slow)
			return nil
		})
		time.Sleep(2 * time.Second)
		begun := time.Now()
		h.stop()
		if took := time.Since(begun); took != slow-time.Second {
			t.Errorf("stop returned after %v, want %v: the rest of the notification", took, slow-time.Second)
		}
	})
}
