package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"layover/internal/router"
	"layover/turnstile"
)

// An actor's states and what moves it between them. All of it happens under
// Plane.mu and in this file.
//
//	          begin                awaken
//	asleep ──────────▶ waking ──────────────▶ awake
//	   ▲                  │ fail, dismiss       │ dismiss, crash
//	   │                  ▼                     ▼
//	   └──── end ──── going to sleep ◀──────────┘
//
// "failed" is asleep with a retryAt that lies ahead. In numbers:
//
//	life != nil     <=> state != asleep: each life holds one pass of its pool
//	going to sleep  =>  draining (requests with it) or stopping (none, or the process is given up)
//	Plane.queued    =   actors that are queued: instances of templates that are asleep and wanted
//	pool.draining   =   lives of the pool that are draining
//	pool.stopping   =   lives of the pool that are stopping and not overdue: workers on their way back
type actor struct {
	name     string
	def      Actor // what its next life will be
	template bool  // made by a request, to be forgotten
	removed  bool  // no longer in the configuration
	queued   bool  // it counts in Plane.queued

	state    router.State // never Failed
	since    time.Time    // when state began
	life     *life        // nil while asleep
	wanted   int          // requests that want it and are not with it
	lastUsed time.Time    // when a request last left it
	places   map[*turnstile.Place]struct{}
	keeping  bool             // its schedule says that it is kept awake now
	kept     *turnstile.Place // one of places: that of keepLocked; nil: none

	wakes     uint64
	lastWake  time.Duration
	failures  int       // starts that failed in a row
	failing   bool      // its last start that came to an end failed, whatever failures forgives
	retryAt   time.Time // no start before; zero: none failed
	lastError string
	lastWords []string  // what its last life printed in the end
	printed   uint64    // how many lines that were in all
	spoke     uint64    // the number of that life
	shownTo   time.Time // it is not forgotten before: it failed, and who runs the router should see it

	alarm   *time.Timer
	alarmAt time.Time // when alarm rings; zero: it is not set
}

// life is one wake-up of an actor, from the worker it took to its confirmed
// exit. What is not said to be fixed is guarded by Plane.mu.
type life struct {
	number  uint64         // fixed
	pool    *pool          // fixed
	pass    turnstile.Pass // fixed
	began   time.Time      // fixed
	decided chan struct{}  // fixed; closed when it is awake or never will be
	gone    chan struct{}  // fixed; closed when nothing of it is left
	dismiss context.CancelCauseFunc

	program  program // nil until it runs
	target   router.Target
	awakeAt  time.Time
	err      *router.Error // why it was never awake; nil also when it was dismissed before that
	inFlight int           // requests that are with it
	served   bool          // one was
	refusals int           // connections that it refused since it took one
	stopping bool
	overdue  bool  // it is stopping, should be gone, and is not
	why      error // why it goes to sleep

	refusedSince time.Time // the first of refusals
}

// Why a life ends.
var (
	errIdle     = errors.New("idle")
	errEvicted  = errors.New("its worker is wanted")
	errMaxHold  = errors.New("awake for max_hold while its worker is wanted")
	errChanged  = errors.New("its definition changed")
	errRemoved  = errors.New("it was removed from the configuration")
	errAsked    = errors.New("asked to sleep")
	errShutdown = errors.New("the router shuts down")
	errCrashed  = errors.New("it exited by itself")
	errRefuses  = errors.New("its program runs, but takes no connections")
	errFailed   = errors.New("its start failed")
)

// errNotReady is the cause of a start that took too long.
type errNotReady struct{ after time.Duration }

func (e errNotReady) Error() string {
	return "not ready after " + strings.Replace(e.after.String(), "m0s", "m", 1)
}

// The back-off after failed starts in a row: doubling from shortest to longest.
const (
	shortestBackoff = time.Second
	longestBackoff  = time.Minute
)

func backoff(failures int) time.Duration {
	if failures > 6 {
		return longestBackoff
	}
	return min(shortestBackoff<<(failures-1), longestBackoff)
}

func (a *actor) enterLocked(s router.State) { a.state, a.since = s, time.Now() }

// idleLocked reports whether a is awake for nobody.
func (a *actor) idleLocked() bool {
	return a.state == router.Awake && a.wanted == 0 && a.life.inFlight == 0
}

// idleSinceLocked is when an idle actor became so.
func (a *actor) idleSinceLocked() time.Time {
	if a.lastUsed.After(a.life.awakeAt) {
		return a.lastUsed
	}
	return a.life.awakeAt
}

// beginLocked gives a, which is asleep, a life that holds pass.
func (p *Plane) beginLocked(a *actor, pl *pool, pass turnstile.Pass) *life {
	ctx, dismiss := context.WithCancelCause(context.Background())
	p.wakes++
	l := &life{
		number: p.wakes, pool: pl, pass: pass, began: time.Now(),
		decided: make(chan struct{}), gone: make(chan struct{}), dismiss: dismiss,
	}
	a.wakes++
	a.life = l
	p.tallyLocked(a)
	a.enterLocked(router.Waking)
	p.lives.Add(1)
	go p.live(ctx, a, l, job{Actor: a.def, wake: l.number}) // Stop waits for it
	return l
}

// live carries a life through. ctx ends when it is dismissed.
func (p *Plane) live(ctx context.Context, a *actor, l *life, j job) {
	defer p.lives.Done()
	ceiling, cancel := context.WithTimeoutCause(ctx, j.StartTimeout, errNotReady{j.StartTimeout})
	started := make(chan error, 1)
	go func() { started <- p.start(l, j) }() // it is received from below, in any case
	late := false
	var err error
	select {
	case err = <-started:
		if err == nil {
			err = l.program.ready(ceiling)
		}
	case <-ceiling.Done(): // the machine hangs: a file server or a directory of users that is away
		late, err = true, fmt.Errorf("%w: its program is not started yet", context.Cause(ceiling))
	}
	cancel()
	if err == nil {
		p.awaken(a, l)
		p.logAwake(a.name, l)
		select {
		case <-l.program.exited():
			p.crash(a, l)
		case <-ctx.Done():
		}
	} else {
		p.fail(a, l, err)
		p.logFailed(a.name, l)
	}
	grace := p.grace(a, l, late)
	patience, cancel := context.WithTimeout(p.patient, grace)
	overdue := time.AfterFunc(grace+deathLimit, func() { p.overdue(l) })
	if late { // the worker stays taken: what may still start would run beside the next life
		<-started
	}
	if l.program != nil {
		l.program.stop(patience)
	}
	cancel()
	overdue.Stop()
	p.end(a, l)
}

func (p *Plane) start(l *life, j job) error {
	program, err := p.host.start(j)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.program = program
	return nil
}

// awaken: waking to awake, unless it was dismissed meanwhile.
func (p *Plane) awaken(a *actor, l *life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stopping {
		return
	}
	l.target = router.Target{Addr: l.program.addr(), Protocol: a.def.Protocol, Wake: l.number}
	l.awakeAt = time.Now()
	a.failing = false
	if strings.HasPrefix(a.lastError, didNotStart) { // it did now
		a.lastError = ""
	}
	a.lastWake = l.awakeAt.Sub(l.began)
	a.enterLocked(router.Awake)
	l.pool.awake[a] = struct{}{}
	close(l.decided)
	p.settleLocked(a)
}

// fail: waking to going to sleep, with a back-off for the next start.
func (p *Plane) fail(a *actor, l *life, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stopping { // dismissed: its end is not its fault
		return
	}
	var output []string
	if l.program != nil {
		output = l.program.output(shownLines)
	}
	if line := lastLine(output); line != "" {
		err = fmt.Errorf("%w; its last line: %s", err, line)
	}
	l.err = router.Fail(router.StartFailed, publicly(err), err)
	l.err.Output = output
	a.backOffLocked(didNotStart + err.Error())
	a.shownTo = time.Now().Add(longestBackoff)
	l.err.RetryAfter = backoff(a.failures)
	p.stopLocked(a, l, errFailed)
}

// didNotStart is how the last error of a failed start begins.
const didNotStart = "the actor did not start: "

// longestQuote is the most of a program's line that an error has.
const longestQuote = 200

// lastLine returns the last of lines that is not blank: most programs say there
// what they miss.
func lastLine(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(line) > longestQuote {
			line = strings.ToValidUTF8(line[:longestQuote], "") + "…"
		}
		return line
	}
	return ""
}

// publicly says of a failed start what any client may know: no path, no process
// and no address of this machine.
func publicly(err error) string {
	if errors.Is(err, errExited) {
		return "the actor exited before it was ready"
	}
	if slow, ok := errors.AsType[errNotReady](err); ok {
		return "the actor was " + slow.Error()
	}
	return "the actor did not start"
}

// crash: awake or draining to stopping, because the program exited.
func (p *Plane) crash(a *actor, l *life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stopping {
		return
	}
	if !l.served { // it was ready and of no use: as bad as a failed start, or it would be started for ever
		a.backOffLocked("the actor exited before it served a request: " + l.program.how())
	} else {
		a.lastError = "the actor exited: " + l.program.how()
	}
	a.shownTo = time.Now().Add(longestBackoff)
	p.stopLocked(a, l, errCrashed)
}

func (a *actor) backOffLocked(what string) {
	a.failures++
	a.failing = true
	a.retryAt = time.Now().Add(backoff(a.failures))
	a.lastError = what
}

// dismissLocked: waking or awake to going to sleep. An awake actor finishes
// the requests that are with it first, whoever else wants it.
func (p *Plane) dismissLocked(a *actor, why error) {
	l := a.life
	if l == nil || a.state == router.GoingToSleep {
		return
	}
	if a.state == router.Waking || l.inFlight == 0 {
		p.stopLocked(a, l, why)
		return
	}
	l.why = why
	delete(l.pool.awake, a)
	l.pool.draining++
	a.enterLocked(router.GoingToSleep)
	p.drainLocked(a)
}

// drainLocked: draining to stopping, when max_drain is over: one stream that
// never ends must not keep a worker, nor those who wait for the actor, for ever.
func (p *Plane) drainLocked(a *actor) {
	if a.state != router.GoingToSleep || a.life.stopping || a.def.MaxDrain == 0 {
		return
	}
	at := a.since.Add(a.def.MaxDrain)
	if at.After(time.Now()) {
		p.alarmLocked(a, at)
		return
	}
	p.stopLocked(a, a.life, fmt.Errorf("%w; %d of its requests lasted longer than max_drain", a.life.why, a.life.inFlight))
}

// stopLocked: whatever it was to stopping, whoever is with it.
func (p *Plane) stopLocked(a *actor, l *life, why error) {
	if l.stopping {
		return
	}
	switch a.state {
	case router.Waking:
		close(l.decided)
	case router.GoingToSleep:
		l.pool.draining--
		if why == nil {
			why = l.why
		}
	}
	delete(l.pool.awake, a)
	l.pool.stopping++
	l.stopping, l.why = true, why
	if a.state != router.GoingToSleep {
		a.enterLocked(router.GoingToSleep)
	}
	if why != errFailed && (why != errCrashed || l.served) {
		a.failures, a.retryAt = 0, time.Time{}
	}
	l.dismiss(why)
}

// drainedLocked: draining to stopping, when the last request has left.
func (p *Plane) drainedLocked(a *actor, l *life) {
	if a.life == l && a.state == router.GoingToSleep && !l.stopping && l.inFlight == 0 {
		p.stopLocked(a, l, nil)
	}
}

// grace is how long a's program may take to end by itself; none if it starts
// too late.
func (p *Plane) grace(a *actor, l *life, late bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late || l.why == errCrashed || l.err != nil && errors.Is(l.err.Err, errExited) {
		return 0 // what its main process left behind serves nobody
	}
	return a.def.Grace
}

// deathLimit is how long after KILL a worker counts as on its way back. Only
// the kernel can hold a process up for so long, and then there is no telling
// for how long.
const deathLimit = time.Second

// overdue: l should be gone. Who waits for its worker is given an idle actor's,
// if there is one.
func (p *Plane) overdue(l *life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-l.gone:
	default:
		l.overdue = true
		l.pool.stopping--
		p.evictLocked(l.pool)
	}
}

// end: going to sleep to asleep. The worker goes to whoever is next in line.
func (p *Plane) end(a *actor, l *life) {
	p.mu.Lock()
	if l.program != nil {
		p.noteOutputLocked(a, l)
		if line := lastLine(a.lastWords); l.why == errCrashed && line != "" { // only now it is whole
			a.lastError += "; its last line: " + line
		}
	}
	a.life = nil
	a.enterLocked(router.Asleep)
	if l.overdue { // now the worker is on its way back after all
		l.overdue = false
		l.pool.stopping++
	}
	p.keepLocked(a) // before others in line get the worker, and nobody is evicted
	l.pool.stopping--
	p.returnLocked(l.pool, l.pass)
	close(l.gone)
	p.forgetLocked(a)
	words := shown(a.lastWords)
	p.mu.Unlock()
	if l.why == errCrashed {
		p.log.Warn("actor exited by itself", "actor", a.name, "wake", l.number, "how", l.program.how(), "output", words)
	}
	if errors.Is(l.why, errRefuses) {
		p.log.Warn("actor took no connections", "actor", a.name, "wake", l.number, "output", words)
	}
	p.log.Info("actor asleep", "actor", a.name, "wake", l.number, "why", l.why)
}

// settleLocked sees to an actor that is awake and may have become idle: its
// worker may be wanted, or it may have been idle for long enough.
func (p *Plane) settleLocked(a *actor) {
	if a.state != router.Awake {
		return
	}
	p.evictLocked(a.life.pool)
	if a.def.Idle == 0 || a.keeping || !a.idleLocked() {
		return
	}
	at := later(a.idleSinceLocked().Add(a.def.Idle), a.life.awakeAt.Add(a.def.MinAwake))
	if !at.After(time.Now()) {
		p.dismissLocked(a, errIdle)
		return
	}
	p.alarmLocked(a, at)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// alarmLocked has a looked at again at the given time or earlier: an alarm
// that rings too early sets itself again, which is cheaper than to set it anew
// with every request.
func (p *Plane) alarmLocked(a *actor, at time.Time) {
	if !a.alarmAt.IsZero() && !at.Before(a.alarmAt) {
		return
	}
	a.alarmAt = at
	now := time.Now()
	in := at.Sub(now)
	if a.alarm == nil {
		a.alarm = time.AfterFunc(in, func() { p.ring(a) })
		return
	}
	a.alarm.Reset(in)
}

func (p *Plane) ring(a *actor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.alarmAt = time.Time{}
	if p.closed {
		return
	}
	was := a.keeping
	p.scheduleLocked(a)
	if was && !a.keeping {
		p.relieveLocked()
	}
	p.settleLocked(a)
	p.drainLocked(a)
	p.keepLocked(a)
	p.forgetLocked(a)
}

// forgetLocked drops an actor that a request made, or that was removed, once
// nothing is left of it that matters: no life, nobody who wants it, no
// back-off that the next start has to know of, and no failure that nobody may
// have seen yet. Of too many, the latter two are dropped as well.
func (p *Plane) forgetLocked(a *actor) {
	p.tallyLocked(a)
	if !a.template && !a.removed || a.life != nil || a.wanted > 0 || len(a.places) > 0 || p.actors[a.name] != a {
		return
	}
	if !a.removed && len(p.actors)-len(p.defs.exact) < 2*p.mostQueuedLocked() {
		until := a.shownTo
		if !a.retryAt.IsZero() {
			until = later(until, a.retryAt.Add(backoff(a.failures)))
		}
		if until.After(time.Now()) {
			p.alarmLocked(a, until)
			return
		}
	}
	if a.alarm != nil {
		a.alarm.Stop()
	}
	delete(p.actors, a.name)
}

// tallyLocked keeps Plane.queued right. It must be called whenever a begins or
// stops to be wanted or asleep, or changes between instance and configured;
// forgetLocked does.
func (p *Plane) tallyLocked(a *actor) {
	queued := a.template && a.life == nil && (a.wanted > 0 || len(a.places) > 0)
	switch {
	case queued && !a.queued:
		p.queued++
	case !queued && a.queued:
		p.queued--
	}
	a.queued = queued
}

// mostQueuedLocked bounds the instances of templates that are asleep and
// wanted. What is configured is bounded by the configuration, and requests that
// wait by the lot, but anybody can ask for one name after another and leave at
// once, and each of them would be in line.
func (p *Plane) mostQueuedLocked() int {
	workers := 0
	for _, pl := range p.pools {
		workers += pl.Workers
	}
	return max(1024, 16*workers)
}
