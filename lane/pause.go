package lane

import (
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// pause is until when nobody asks the host for anything. Guarded by Lane.mu.
type pause struct {
	until time.Time
	since time.Time                   // when it was last set
	own   *backoff.ExponentialBackOff // for a host that says "too many" and not when; grows until it is content
}

// end is until when the lane is paused, by the wall clock as it is now: since the pause began it may have been set, or gone on while
// the machine was suspended. Zero: it is not paused.
func (p *pause) end(now time.Time) time.Time { return fromNow(p.until, now) }

// fromNow is at, if that is still to come, by the wall clock of now.
func fromNow(at, now time.Time) time.Time {
	left := at.Sub(now)
	if left <= 0 {
		return time.Time{}
	}
	return now.Add(left)
}

// learn draws conclusions from an answer's header, before its body is read: the lane is shared, and others are about to send.
// It returns when the host wants to be asked again.
func (l *Lane) learn(c *call, status int, h http.Header) (hintAt time.Time) {
	now := time.Now()
	hint, hinted := RetryAfter(h, now)
	if hinted && (status >= 400) {
		hintAt = now.Add(min(hint, l.o.MaxPause))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mayHelp(status) {
		l.paused.own.Reset()
		l.tokens = min(l.tokens+0.1, float64(l.o.Retries))
		return hintAt
	}
	if status == http.StatusTooManyRequests {
		l.stats.Limited++
	}
	switch {
	case hinted && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
		l.pauseLocked(now, hintAt)
	// Answers to what was sent before the pause began are no news: else as many as are under way would each double it.
	case status == http.StatusTooManyRequests && !c.started.Before(l.paused.since):
		l.pauseLocked(now, now.Add(min(l.paused.own.NextBackOff(), l.o.MaxPause)))
	}
	return hintAt
}

// pauseLocked never shortens a pause.
func (l *Lane) pauseLocked(now, until time.Time) {
	l.paused.since = now
	if until.After(l.paused.until) {
		l.paused.until = until
	}
}

func (l *Lane) pauseLeft() time.Duration {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused.until.Sub(now)
}

func (l *Lane) isPaused() bool { return l.pauseLeft() > 0 }

// State is what a lane should remember over a restart of the program, in a form for JSON.
type State struct {
	PausedUntil time.Time `json:"paused_until,omitzero"` // by the wall clock; zero: not paused
}

// State returns what Restore takes.
func (l *Lane) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.paused.end(time.Now())
	if until.IsZero() {
		return State{}
	}
	return State{PausedUntil: until.Round(0).UTC()}
}

// Restore pauses the lane as s says, at most for Options.MaxPause from now. It never shortens a pause, and a time that has passed
// changes nothing. The wall clock is read once.
func (l *Lane) Restore(s State) {
	now := time.Now()
	left := min(s.PausedUntil.Sub(now), l.o.MaxPause)
	l.mu.Lock()
	defer l.mu.Unlock()
	if left > 0 {
		l.pauseLocked(now, now.Add(left))
	}
}
