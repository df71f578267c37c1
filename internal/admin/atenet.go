package admin

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"layover/internal/router"
)

// atenet has the instruments of the meter atenet-router, whose names dashboards
// know. It is nil in a program that has none.
type atenet struct {
	budget      time.Duration // the longest that a request is held
	wait, route metric.Float64Histogram
}

// The outcomes of a wait in the lot.
const (
	waitServed    = "served"
	waitExhausted = "budget_exhausted" // the park budget ended
	waitTimeout   = "timeout"          // the request's own deadline ended
	waitCanceled  = "canceled"
	waitError     = "error"
)

func newAtenet(meter metric.Meter, a *Admin) (*atenet, error) {
	m := &atenet{budget: a.options.ParkBudget}
	var errs [5]error
	m.wait, errs[0] = histogram(meter, "atenet.router.parking.wait.duration", "Time that a parked request waited.")
	m.route, errs[1] = histogram(meter, "atenet.router.route.duration", "Time from a request's arrival to where it goes, or its refusal.")
	active, err := meter.Int64ObservableUpDownCounter("atenet.router.parking.active", metric.WithDescription("Requests that are parked now."))
	errs[2] = err
	rejected, err := meter.Int64ObservableCounter("atenet.router.parking.rejected", metric.WithDescription("Requests that had to park and found no spot."))
	errs[3] = err
	_, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if r := a.router.Load(); r != nil {
			lot := r.Lot().Snapshot()
			o.ObserveInt64(active, int64(lot.Active))
			o.ObserveInt64(rejected, int64(lot.Rejected))
		}
		return nil
	}, active, rejected)
	return m, errors.Join(errs[:]...)
}

func (m *atenet) observe(rec router.Record) {
	if m == nil {
		return
	}
	ctx := context.Background()
	if rec.Wake != "" { // else it was refused before anything was asked for
		m.route.Record(ctx, rec.Took.Seconds(), atenetOutcomes[string(rec.Wake)]...)
	}
	if rec.Parked {
		m.wait.Record(ctx, rec.ParkedFor.Seconds(), atenetOutcomes[m.outcome(rec)]...)
	}
}

// outcome is how the wait of a parked request ended.
func (m *atenet) outcome(rec router.Record) string {
	switch {
	case rec.Reason == "":
		return waitServed
	case rec.Reason == router.ClientGone:
		return waitCanceled
	case rec.Budget.Remaining() > 0:
		return waitError
	}
	if end, ok := rec.Budget.End(); ok && end.Sub(rec.At) < m.budget {
		return waitTimeout
	}
	return waitExhausted
}

// atenetOutcomes has the label sets, made once.
var atenetOutcomes = func() map[string][]metric.RecordOption {
	sets := make(map[string][]metric.RecordOption)
	for _, outcome := range []string{
		waitServed, waitExhausted, waitTimeout, waitCanceled, waitError,
		string(router.WakeNone), string(router.WakeTriggered), string(router.WakeJoined), string(router.WakeSpared),
	} {
		sets[outcome] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", outcome)))}
	}
	return sets
}()
