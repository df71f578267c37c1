package sampled

import (
	"context"
	"log/slog"

	"layover/internal/router"
)

// Outcomes returns a function that logs the requests that were refused or failed,
// by route and reason, so there are at most as many kinds as routes times
// reasons. plain makes a detail what people read who do not know the packages.
func Outcomes(log *slog.Logger, plain func(detail string) string) (observe func(router.Record)) {
	type kind struct {
		route  string
		reason router.Reason
	}
	l := New(func(_ kind, rec router.Record, n int) {
		attrs := []slog.Attr{slog.String("reason", string(rec.Reason)), slog.String("route", rec.Route), slog.String("actor", rec.Actor),
			slog.Int("status", rec.Status), slog.String("id", rec.ID), slog.Duration("took", rec.Took), slog.String("detail", Cut(plain(rec.Detail)))}
		if n > 1 {
			attrs = append(attrs, slog.Int("requests", n))
		}
		log.LogAttrs(context.Background(), outcomeLevel(rec.Reason), "request not served", attrs...)
	}, nil)
	return func(rec router.Record) {
		if rec.Reason != "" {
			l.Add(kind{rec.Route, rec.Reason}, rec)
		}
	}
}

// outcomeLevel is how much an outcome says about the router and its actors,
// and not about who asked.
func outcomeLevel(reason router.Reason) slog.Level {
	switch reason {
	case router.Internal:
		return slog.LevelError
	case router.ClientGone, router.NoRoute, router.UnknownActor, router.BadRequest, router.BadHost, router.BadDeadline, router.DeadlinePast:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// Errors returns a function that logs errors under msg, whatever they are: one at
// once, and while more come one in ten seconds, with how many there were.
func Errors(log *slog.Logger, msg string) func(error) {
	l := New(func(_ struct{}, last error, n int) {
		log.Warn(msg, slog.String("err", Cut(last.Error())), slog.Int("times", n))
	}, nil)
	return func(err error) { l.Add(struct{}{}, err) }
}
