package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// Many requests at once for a sleeping actor are all served or shed by rule. What the client counted must be what layover
// counted, and one start serves them all.

func TestR19_ABurstIsServed(t *testing.T) {
	s := serveActors(t, "lot: 1000")
	got := h2load(t, s, "h1-burst")
	if got != (burst{sent: 1000, served: 1000}) {
		t.Errorf("1000 requests for a lot of 1000: %+v, want all served", got)
	}
	s.wantBurst(t, "h1-burst", got)
}

func TestR19_ABurstIsShedByRule(t *testing.T) {
	s := serveActors(t, "lot: 100")
	got := h2load(t, s, "h2c-burst")
	if got.served < 100 || got.refused < 1 || got.served+got.refused != 1000 {
		t.Errorf("1000 requests for a lot of 100: %+v, want 100 served at least, and the others refused", got)
	}
	s.wantBurst(t, "h2c-burst", got)
}

// burst is what became of a burst's requests, as the client counted.
type burst struct{ sent, served, refused int }

// h2load sends a thousand requests at once over ten HTTP/2 connections.
func h2load(t *testing.T, s *server, to string) burst {
	t.Helper()
	out := run(t, ".", need(t, "h2load"), "-n", "1000", "-c", "10", "-m", "100", "-H", "X-To: "+to, "http://"+s.addr+"/")
	numbers := func(pattern string) []int { return numbersIn(t, out, pattern) }
	done := numbers(`requests: (\d+) total, (\d+) started, (\d+) done, \d+ succeeded, \d+ failed, (\d+) errored, (\d+) timeout`)
	codes := numbers(`status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
	if done[1] != 1000 || done[2] != 1000 || done[3]+done[4]+codes[1]+codes[2] != 0 {
		t.Errorf("some were lost:\n%s", out)
	}
	return burst{sent: done[1], served: codes[0], refused: codes[3]}
}

func TestR19_ABurstOfConnectionsIsServedOrShed(t *testing.T) {
	for _, lot := range []int{20, 1000} {
		s := serveActors(t, fmt.Sprintf("lot: %d", lot))
		out := run(t, ".", need(t, "wrk"), "-t", "2", "-c", "200", "-d", "1s", "--timeout", "10s", "-H", "X-To: h1-wrk", "http://"+s.addr+"/")
		got := burst{sent: numbersIn(t, out, `(\d+) requests in`)[0]}
		if regexp.MustCompile(`Non-2xx`).MatchString(out) {
			got.refused = numbersIn(t, out, `Non-2xx or 3xx responses: (\d+)`)[0]
		}
		got.served = got.sent - got.refused
		if regexp.MustCompile(`Socket errors`).MatchString(out) {
			t.Errorf("some were lost:\n%s", out)
		}
		if got.served == 0 || (lot == 1000) != (got.refused == 0) {
			t.Errorf("200 connections for a lot of %d: %+v", lot, got)
		}
		// wrk leaves at the end of its time, with a request on each connection.
		until(t, "the last requests of wrk have ended", func() bool {
			n := s.counted(t)
			return n >= got.sent && n <= got.sent+200
		})
		if shed := s.counted(t, `outcome="lot_full"`); shed < got.refused || shed > got.refused+200 {
			t.Errorf("layover shed %d requests, wrk saw %d", shed, got.refused)
		}
		// The requests that wrk left behind go on ending between one look and the next.
		until(t, "every request was served, shed, or left by its client", func() bool {
			return s.counted(t) == s.counted(t, `outcome="lot_full"`)+s.counted(t, `outcome="served"`)+s.counted(t, `outcome="client_gone"`)
		})
	}
}

func (s *server) wantBurst(t *testing.T, to string, want burst) {
	t.Helper()
	until(t, fmt.Sprintf("layover has counted %+v, as the client", want), func() bool { // a request is counted at its end, behind the answer
		return want == burst{sent: s.counted(t), served: s.counted(t, `outcome="served"`), refused: s.counted(t, `outcome="lot_full"`)}
	})
	for _, a := range s.status(t).Actors {
		if a.Name == to && a.Wakes != 1 {
			t.Errorf("%s was started %d times, want once", to, a.Wakes)
		}
	}
}

func numbersIn(t *testing.T, out, pattern string) (all []int) {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("no %q in:\n%s", pattern, out)
	}
	for _, text := range found[1:] {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
