package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"layover/e2e/actor"
)

// A stream or socket keeps its actor awake longer than idle, also a silent one, and stream_idle ends that.
func TestR64_StreamsAndSocketsKeepActorsAwakeUntilTheyAreSilentForTooLong(t *testing.T) {
	const idle, streamIdle = 300 * time.Millisecond, time.Second
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf(`
listen: filled in
routes:
- {header: X-To, value: "{actor}"}
- {header: X-Cut, value: "{actor}", stream_idle: %v}
actors:
  "a-*": {command: [%q], env: {%s: "{actor}"}, idle: %v}
`, streamIdle, self, actor.Name, idle))
	is := func(name string) (state string, wakes int) {
		for _, a := range s.status(t).Actors {
			if a.Name == name {
				return a.State, a.Wakes
			}
		}
		return "asleep", 0 // of a template's actor nothing is kept
	}
	asleep := func(name string) {
		t.Helper()
		until(t, name+" sleeps", func() bool { state, _ := is(name); return state == "asleep" })
	}
	awake := func(name string) {
		t.Helper()
		if state, wakes := is(name); state != "awake" || wakes > 1 {
			t.Errorf("%s is %s after %d wakes, want awake after one", name, state, wakes)
		}
	}

	// Events for five times as long as idle.
	req, err := http.NewRequestWithContext(short(t), "GET", "http://"+s.addr+"/events?n=8&ms=200", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-To", "a-events")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
			awake("a-events")
		}
	}
	if events != 8 {
		t.Errorf("%d events, want 8", events)
	}
	asleep("a-events")

	for header, cut := range map[string]bool{"X-To": false, "X-Cut": true} {
		name := "a-" + strings.ToLower(header)
		conn, _, err := websocket.Dial(short(t), "ws://"+s.addr+"/socket", &websocket.DialOptions{HTTPHeader: http.Header{header: {name}}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		echo := func() error {
			if err := conn.Write(short(t), websocket.MessageText, []byte("hello")); err != nil {
				return err
			}
			_, _, err := conn.Read(short(t))
			return err
		}
		for range 4 { // talking, more slowly than idle and faster than stream_idle
			if err := echo(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			<-time.After(streamIdle * 2 / 5)
			awake(name)
		}
		if cut {
			began := time.Now()
			if _, _, err := conn.Read(short(t)); err == nil || time.Since(began) > 10*time.Second {
				t.Errorf("%s: a silent socket: %v after %v, want the end", name, err, time.Since(began))
			}
			until(t, "the cut is counted", func() bool {
				return strings.Contains(string(s.adminGet(t, "/metrics")), "layover_connection_events_total{event=\"stream_idle\"} 1\n")
			})
		} else {
			<-time.After(streamIdle * 3 / 2) // silent
			awake(name)
			if err := echo(); err != nil {
				t.Errorf("%s: after a silence: %v", name, err)
			}
			conn.Close(websocket.StatusNormalClosure, "done")
		}
		asleep(name)
	}
}
