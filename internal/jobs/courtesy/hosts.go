package courtesy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"layover/internal/jobs/board"
	"layover/lane"
)

// How many hosts have a lane, and of how many more a pause is remembered.
const (
	maxHosts  = 256
	maxPauses = 1024
)

// maxPause bounds what a host can ask for, and what is believed after a restart.
const maxPause = 24 * time.Hour

// lanes has one lane per host: made when the host is first asked, at the pace of
// the board that asks, and dropped when there are too many and nobody uses it.
type lanes struct {
	client *http.Client

	mu     sync.Mutex
	byHost map[string]*hostLane
	pauses map[string]time.Time // of hosts without a lane
}

type hostLane struct {
	*lane.Lane
	users int
	used  time.Time // last
}

func newLanes(client *http.Client) *lanes {
	return &lanes{client: client, byHost: make(map[string]*hostLane), pauses: make(map[string]time.Time)}
}

// use returns the lane to host, with which done is called at the end of its use.
func (l *lanes) use(b *board.Board, host string) (on *lane.Lane, done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.byHost[host]
	if h == nil {
		if h, err = l.addLocked(b, host); err != nil {
			return nil, nil, err
		}
	}
	h.users++
	return h.Lane, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		h.users--
		h.used = time.Now()
	}, nil
}

func (l *lanes) addLocked(b *board.Board, host string) (*hostLane, error) {
	if len(l.byHost) >= maxHosts && !l.dropLocked() {
		return nil, fmt.Errorf("courtesy: %d hosts are being asked already: ask for fewer companies at once", maxHosts)
	}
	o := lane.Options{Client: l.client, Concurrency: b.AtOnce, MaxBody: b.MaxBody, MaxPause: maxPause}
	if b.Every > 0 {
		o.Rate = rate.Every(b.Every)
	}
	made, err := lane.New(host, o)
	if err != nil {
		return nil, err
	}
	made.Restore(lane.State{PausedUntil: l.pauses[host]})
	delete(l.pauses, host)
	h := &hostLane{Lane: made}
	l.byHost[host] = h
	return h, nil
}

// dropLocked drops the lane that has gone unused for longest. Its pause stays.
func (l *lanes) dropLocked() bool {
	oldest := ""
	for host, h := range l.byHost {
		if h.users == 0 && (oldest == "" || h.used.Before(l.byHost[oldest].used)) {
			oldest = host
		}
	}
	if oldest == "" {
		return false
	}
	l.rememberLocked(oldest, l.byHost[oldest].Stats().PausedUntil)
	delete(l.byHost, oldest)
	return true
}

// rememberLocked remembers a pause; if there are too many, not the one that
// ends first.
func (l *lanes) rememberLocked(host string, until time.Time) {
	now := time.Now()
	if !until.After(now) {
		return
	}
	l.pauses[host] = until
	if len(l.pauses) <= maxPauses {
		return
	}
	first := host
	for h, u := range l.pauses {
		if u.Before(l.pauses[first]) {
			first = h
		}
	}
	delete(l.pauses, first)
}

// restore pauses hosts for what is left of their pauses.
func (l *lanes) restore(left map[string]time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for host, d := range left {
		l.rememberLocked(host, now.Add(min(d, maxPause)))
	}
}

// left is how long each host is still paused.
func (l *lanes) left() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	left := make(map[string]time.Duration)
	for host, until := range l.pauses {
		left[host] = until.Sub(now)
	}
	for host, h := range l.byHost {
		left[host] = h.Stats().PausedUntil.Sub(now)
	}
	for host, d := range left {
		if d <= 0 {
			delete(left, host)
		}
	}
	return left
}

func (l *lanes) snapshot() []lane.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]lane.Stats, 0, len(l.byHost))
	for _, h := range l.byHost {
		all = append(all, h.Stats())
	}
	slices.SortFunc(all, func(a, b lane.Stats) int { return strings.Compare(a.Host, b.Host) })
	return all
}
