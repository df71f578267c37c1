package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"layover/internal/cli"
	"layover/internal/router"
)

// sampleEvery is how often one outcome of one route is logged, at most.
const sampleEvery = 10 * time.Second

// outcomes logs requests that were refused or failed: of one route and reason
// one line, and then, while more of them come, one in sampleEvery that says how
// many there were. There are at most as many kinds as routes times reasons.
type outcomes struct {
	log *slog.Logger

	mu   sync.Mutex
	kind map[outcomeKind]*repeated
}

type outcomeKind struct {
	route  string
	reason router.Reason
}

// repeated is an outcome that was logged less than sampleEvery ago.
type repeated struct {
	more int           // since then
	last router.Record // of those
}

func newOutcomes(log *slog.Logger) *outcomes {
	return &outcomes{log: log, kind: make(map[outcomeKind]*repeated)}
}

// outcomeLevel is how much an outcome says about the router and its actors,
// and not about who asked.
func outcomeLevel(reason router.Reason) slog.Level {
	switch reason {
	case router.Internal:
		return slog.LevelError
	case router.ClientGone, router.NoRoute, router.UnknownActor, router.BadRequest, router.BadDeadline, router.DeadlinePast:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

func (o *outcomes) observe(rec router.Record) {
	if rec.Reason == "" {
		return
	}
	key := outcomeKind{rec.Route, rec.Reason}
	o.mu.Lock()
	seen := o.kind[key]
	if seen != nil {
		seen.more, seen.last = seen.more+1, rec
	} else {
		o.kind[key] = new(repeated)
		time.AfterFunc(sampleEvery, func() { o.again(key) })
	}
	o.mu.Unlock()
	if seen == nil {
		o.write(rec, 1)
	}
}

// again says what came since the last line of a kind, or forgets the kind.
func (o *outcomes) again(key outcomeKind) {
	o.mu.Lock()
	seen := *o.kind[key]
	if seen.more == 0 {
		delete(o.kind, key)
	} else {
		*o.kind[key] = repeated{}
		time.AfterFunc(sampleEvery, func() { o.again(key) })
	}
	o.mu.Unlock()
	if seen.more > 0 {
		o.write(seen.last, seen.more)
	}
}

// write logs the last of n requests with one outcome.
func (o *outcomes) write(rec router.Record, n int) {
	attrs := []slog.Attr{slog.String("reason", string(rec.Reason)), slog.String("route", rec.Route), slog.String("actor", rec.Actor),
		slog.Int("status", rec.Status), slog.String("id", rec.ID), slog.Duration("took", rec.Took), slog.String("detail", cut(cli.Plain(rec.Detail)))}
	if n > 1 {
		attrs = append(attrs, slog.Int("requests", n))
	}
	o.log.LogAttrs(context.Background(), outcomeLevel(rec.Reason), "request not served", attrs...)
}

// maxLogged is the most of a text from outside that a line of the log has.
const maxLogged = 256

func cut(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return text[:maxLogged] + "…"
}
