// Package crew is an elastic set of workers, braked by the gate in front of the work.
//
// Each worker parks holding nothing, takes a turn at a turnstile's gate, then takes work, then processes it, in that order.
// So no work is in the hands of one who waits: until there is room for it, a piece stays where everybody can see it, and
// whoever gets the next turn takes what is best by then. The crew has as many workers as the work needs, and one in reserve.
//
//	set := turnstile.NewSet()
//	set.Resize(0, 8) // at most 8 at once at the database
//	c := crew.Start(ctx, set.Gate(0), 0, crew.Duty[Row]{Take: claimRow, Process: handle, Panicked: report}, crew.Options{})
//	insert(row)
//	c.Wake()            // after work has come; from anywhere, at any rate
//	err := c.Drain(ctx) // takes no more, waits for what is in progress
//
// # The first turn
//
// The gate's turn is the first of the job: Take runs on it, and so does Process until it calls release, which normally follows
// the first use of what the gate bounds. For each later use the job takes a turn of its own with turnstile.WaitTurn(job). The
// job's context carries the claim that was stamped when the worker came to the gate, so a job in progress goes before any
// worker that has come since. A job must not wait for a turn, nor for anything slow, before it has released the first. The crew
// gives the turn back itself when there was nothing to take, and when a callback returns, panics or ends its goroutine: no
// pass is lost. After release nothing bounds how many jobs are in progress but Options.Max.
//
// # Growth
//
// A worker is idle unless it is processing: parked, just started, waiting at the gate and taking are all idle. When a take
// leaves nobody idle, the crew grows by one. That is the only rule, and it knows no delay and no batch. A gate whose passes are
// all held does not make the crew grow, since the one who waits there is idle; work that arrives while all others process does,
// through the reserve. There are never more workers than Min or one more than the most jobs that were in progress at once.
//
// A parked worker is one to spare if there are more than Min, and another one is idle. When the crew has had one to spare for all
// of Options.Linger, the one that has been parked longest leaves; it has had two to spare for as long, two leave; and so on. So
// a crew settles at one more than the most jobs that were in progress at once lately, or at Min, and then it has no timer.
//
// # Concurrency
//
// All methods may be called from several goroutines at once, from callbacks too. One mutex guards the state, which is drawn in
// roster.go; no callback runs under it. The crew owns one goroutine per worker, and Drain waits for them.
package crew

import (
	"context"
	"time"

	"layover/turnstile"
)

// Duty is what a crew does. All three functions are required, and called from several goroutines at once.
type Duty[W any] struct {
	// Take takes one piece of work, without waiting for one to come; ok is false if there is none. It runs on the job's
	// first turn. If it finds nothing, nobody looks again before the next Wake, so whoever adds work must call Wake after it. Once
	// it has found something, workers look until one finds nothing: one Wake is enough for any number of pieces.
	Take func(job context.Context) (work W, ok bool)

	// Process processes what Take returned, with the same context. release gives the first turn back; see the package
	// comment. It may be called twice, from any goroutine, and after Process has returned.
	Process func(job context.Context, work W, release func())

	// Panicked hears of a panic of Take or Process, after the turn was given back and on the goroutine that panicked. The
	// value is nil if the callback ended its goroutine by runtime.Goexit; then another goroutine takes over. A panic costs
	// that one job: the worker goes on when Panicked has returned. After one in Take it does not look again before the next
	// Wake, though others may. A panic of Panicked itself is not recovered.
	Panicked func(job context.Context, value any, stack []byte)
}

// Options are the choices that have a default.
type Options struct {
	// Min is how many workers there are at least, until the crew stops. Default 1, the reserve, also for less.
	Min int
	// Max is how many workers there are at most. While all of them process, there is no reserve, and work waits for the first
	// to be done. Default 0: no bound but the work itself, also for less; less than Min counts as Min.
	Max int
	// Linger is how long the crew keeps a worker to spare before one leaves. Default 10 s; negative means not at all.
	Linger time.Duration
}

// A Crew is a set of workers. Start makes one; the zero Crew is not usable and panics.
type Crew[W any] struct {
	gate   *turnstile.Gate
	shard  int
	duty   Duty[W]
	roster roster
}

// Start starts a crew that works through the gate, at that shard, which must have a turnstile by then: without one nothing brakes
// the crew. Its workers look for work at once, with no need for a Wake. It panics if the gate or a function of the duty is nil.
//
// The contexts of the jobs derive from ctx and end when their job ends. When ctx ends, the crew stops as by Drain, and jobs in
// progress have ended contexts. If ctx belongs to a job itself (turnstile.Begin), all that the crew does is part of that job
// and has its age; else each piece of work is a job of its own.
//
// A closed gate stops the crew as well: the first worker that comes to it ends the others, and jobs in progress go on.
func Start[W any](ctx context.Context, gate *turnstile.Gate, shard int, duty Duty[W], o Options) *Crew[W] {
	if gate == nil || duty.Take == nil || duty.Process == nil || duty.Panicked == nil {
		panic("crew: Start without a gate, or with a function of the Duty missing")
	}
	c := &Crew[W]{gate: gate, shard: shard, duty: duty}
	for _, w := range c.roster.begin(o) {
		go c.run(ctx, w)
	}
	return c
}

// Wake says that there may be work. It calls one parked worker, if there is one, and is cheap; it never waits for a callback. Calls
// that find nobody parked count as one: after the last of them somebody looks. After the crew has stopped it does nothing.
func (c *Crew[W]) Wake() {
	c.mustBeStarted()
	c.roster.wake().call()
}

// Drain stops the crew and waits until the last worker has left: no take begins any more, and what was taken is processed. If ctx
// ends first, Drain ends the contexts of the jobs in progress with ctx's cause, returns that cause, and does not wait for them;
// another Drain does. It may be called several times. Called from a callback it waits for that callback too, until ctx ends.
func (c *Crew[W]) Drain(ctx context.Context) error {
	c.mustBeStarted()
	c.roster.stop()
	select {
	case <-c.roster.done:
		return nil
	case <-ctx.Done():
	}
	if c.roster.cancelAll(context.Cause(ctx)) == 0 {
		return nil
	}
	return context.Cause(ctx)
}

// Stats is one look at a crew. The gauges are of that moment; the counters are since Start.
type Stats struct {
	Workers int // there are: the sum of the next four
	Parked  int // wait for a Wake
	AtGate  int // wait for their turn at the gate, or are on their way there
	Taking  int // have a turn and look for work
	Busy    int // process

	Done    uint64 // jobs that are over, also by a panic
	Dry     uint64 // takes that found nothing
	Panics  uint64 // of Take and of Process, and their calls of runtime.Goexit
	Grown   uint64 // workers that were added for want of an idle one
	Left    uint64 // workers that left
	Stopped bool   // by Drain, by the end of its context, or by a closed gate
}

// Stats is the present state, taken under one lock.
func (c *Crew[W]) Stats() Stats {
	c.mustBeStarted()
	return c.roster.stats()
}

func (c *Crew[W]) mustBeStarted() {
	if c.gate == nil {
		panic("crew: use of the zero Crew; make one with Start")
	}
}
