package lane

import "time"

// Stats is one look at a lane. The gauges are of that moment; the counters are since it was made.
type Stats struct {
	Host        string    `json:"host"`
	Waiting     int       `json:"waiting"`               // calls that are not being sent: in line, at the pace, in a pause or a back-off
	InFlight    int       `json:"in_flight"`             // attempts under way
	PausedUntil time.Time `json:"paused_until,omitzero"` // zero: not paused
	Allowance   float64   `json:"allowance"`             // what is left of Options.Retries
	Calls       uint64    `json:"calls"`                 // of Do that were not refused outright
	Attempts    uint64    `json:"attempts"`              // requests sent, repeats included, redirects not
	Retries     uint64    `json:"retries"`               // those of them that were repeats
	Resends     uint64    `json:"resends"`               // those of them that the transport made by itself
	Limited     uint64    `json:"limited"`               // answers of status 429
	Refused     uint64    `json:"refused"`               // repeats that the lane's allowance had nothing left for
}

// Stats is the present state, taken under one lock.
func (l *Lane) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Host, s.Allowance = l.host, l.tokens
	s.PausedUntil = l.paused.end(time.Now())
	return s
}

func (l *Lane) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Calls++
	l.stats.Waiting++
}

func (l *Lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Waiting--
}

// depart and arrive are the edges of an attempt.
func (l *Lane) depart(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Waiting--
	l.stats.InFlight++
	l.countLocked(c)
}

func (l *Lane) arrive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Waiting++
	l.stats.InFlight--
}

// countLocked counts an attempt that begins, and with that uses what was permitted.
func (l *Lane) countLocked(c *call) {
	l.stats.Attempts++
	if c.attempts > 0 {
		l.stats.Retries++
	}
	c.attempts++
	c.paid = false
	c.started = time.Now()
}

func (l *Lane) sent(c *call) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.attempts
}
