package admin

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	export "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"layover/internal/router"
)

// Bounds of all histograms, in seconds: from a warm request to a budget of ten
// minutes.
var bounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// The phases that may be a label. What others are called is shown as "other".
var phases = []string{router.PhaseTurn, router.PhaseLine, router.PhaseWake, router.PhaseSleep, router.PhaseAttempt, router.PhaseRetry}

// The outcomes that are no reasons: the actor answered, or a waiting page whose
// browser asked again.
const (
	outcomeServed  = "served"
	outcomeMovedOn = "moved_on"
)

// metrics are the instruments, and the page that shows them.
type metrics struct {
	handler http.Handler

	requests metric.Int64Counter
	duration metric.Float64Histogram
	parked   metric.Float64Histogram
	phase    metric.Float64Histogram
	atenet   *atenet

	mu     sync.RWMutex
	series map[labels]*labelSets
}

// labels is what tells one series of requests from another.
type labels struct {
	route   string
	outcome string
	wake    string
	band    string
}

// labelSets are the options of one series, made once and passed on as they
// are: a request costs no options of its own.
type labelSets struct {
	requests         []metric.AddOption
	duration, parked []metric.RecordOption
}

func newMetrics(a *Admin) (*metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := export.New(export.WithRegisterer(registry), export.WithoutScopeInfo(), export.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(exporter), sdk.WithResource(resource.Empty()), sdk.WithCardinalityLimit(0))
	meter := provider.Meter("layover")
	m := &metrics{series: make(map[labels]*labelSets), handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})}
	if a.options.ParkBudget > 0 {
		if m.atenet, err = newAtenet(provider.Meter("atenet-router"), a); err != nil {
			return nil, err
		}
	}
	return m, errors.Join(m.addInstruments(meter), addGauges(meter, a), addReloads(meter, a))
}

func (m *metrics) addInstruments(meter metric.Meter) error {
	var errs [4]error
	m.requests, errs[0] = meter.Int64Counter("layover_requests",
		metric.WithDescription("Requests that have their answer."))
	m.duration, errs[1] = histogram(meter, "layover_request_duration",
		"Time from a request's arrival to its final response header.")
	m.parked, errs[2] = histogram(meter, "layover_parked_duration",
		"Time that parked requests held a spot in the lot.")
	m.phase, errs[3] = histogram(meter, "layover_phase_duration",
		"Time that requests spent in each phase.")
	return errors.Join(errs[:]...)
}

func histogram(meter metric.Meter, name, what string) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(name, metric.WithDescription(what), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
}

func (m *metrics) observe(rec router.Record) {
	m.atenet.observe(rec)
	ctx := context.Background()
	sets := m.sets(labels{
		route:   cmp.Or(rec.Route, "none"),
		outcome: outcome(rec),
		wake:    cmp.Or(string(rec.Wake), "unknown"),
		band:    bandLabel(rec.Band),
	})
	m.requests.Add(ctx, 1, sets.requests...)
	m.duration.Record(ctx, rec.Took.Seconds(), sets.duration...)
	if rec.Parked {
		m.parked.Record(ctx, rec.ParkedFor.Seconds(), sets.parked...)
	}
	for _, entry := range rec.Budget.Ledger().Phases {
		if entry.Depth == 0 {
			m.phase.Record(ctx, entry.Elapsed.Seconds(), phaseLabel(entry.Name)...)
		}
	}
}

func outcome(rec router.Record) string {
	if rec.MovedOn {
		return outcomeMovedOn
	}
	return cmp.Or(string(rec.Reason), outcomeServed)
}

// sets returns the attribute sets of a series. There are as many as the
// configuration's routes times the closed sets of the other labels.
func (m *metrics) sets(l labels) *labelSets {
	m.mu.RLock()
	known := m.series[l]
	m.mu.RUnlock()
	if known != nil {
		return known
	}
	route, outcome := attribute.String("route", l.route), attribute.String("outcome", l.outcome)
	wake, band := attribute.String("wake", l.wake), attribute.String("band", l.band)
	known = &labelSets{
		requests: []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(route, outcome, wake, band))},
		duration: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(route, wake))},
		parked:   []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(route, band))},
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[l] = known // another one just like it may have been faster: either will do
	return known
}

// bandLabel keeps the bands that people use apart, and the rest together.
func bandLabel(band int) string {
	switch {
	case band < 0:
		return "below 0"
	case band < 4:
		return [...]string{"0", "1", "2", "3"}[band]
	}
	return "4 and above"
}

var phaseSets = func() map[string][]metric.RecordOption {
	sets := make(map[string][]metric.RecordOption)
	for _, name := range append(slices.Clone(phases), "other") {
		sets[name] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("phase", name)))}
	}
	return sets
}()

func phaseLabel(name string) []metric.RecordOption {
	if set, ok := phaseSets[name]; ok {
		return set
	}
	return phaseSets["other"]
}

// gauges are read from the router when the metrics are asked for.
type gauges struct {
	ready, build                                       metric.Int64ObservableGauge
	inUse                                              metric.Int64ObservableGauge
	capacity, longest                                  metric.Float64ObservableGauge
	rejected, events                                   metric.Int64ObservableCounter
	connections                                        metric.Int64ObservableGauge
	workers, used, waiting, turns, actorState, failing metric.Int64ObservableGauge
}

func addGauges(meter metric.Meter, a *Admin) error {
	var g gauges
	var all []metric.Observable
	var errs []error
	whole := func(name, what string) metric.Int64ObservableGauge {
		gauge, err := meter.Int64ObservableGauge(name, metric.WithDescription(what))
		all, errs = append(all, gauge), append(errs, err)
		return gauge
	}
	g.ready = whole("layover_ready", "1 while the program takes requests.")
	g.build = whole("layover_build_info", "1, with the version as label.")
	g.inUse = whole("layover_lot_spots_used", "Parking spots held now.")
	g.workers = whole("layover_pool_workers", "Actors of the pool that may be awake at once.")
	g.used = whole("layover_pool_workers_used", "Workers of the pool that actors hold now.")
	g.waiting = whole("layover_pool_waiting", "Wake-ups in the pool's line.")
	g.turns = whole("layover_turns_waiting", "Requests that wait for their turn with an actor of the pool.")
	g.actorState = whole("layover_actors", "Actors of the pool by state.")
	g.failing = whole("layover_actors_failing", "Actors of the pool whose last start failed.")
	g.connections = whole("layover_connections", "Connections of clients that are open.")
	var err [4]error
	g.capacity, err[0] = meter.Float64ObservableGauge("layover_lot_spots", metric.WithDescription("Parking spots in all; +Inf when unlimited."))
	g.longest, err[1] = meter.Float64ObservableGauge("layover_lot_longest_wait", metric.WithUnit("s"), metric.WithDescription("Longest wait of the requests that are parked now."))
	g.rejected, err[2] = meter.Int64ObservableCounter("layover_lot_rejected", metric.WithDescription("Requests for which the lot had no spot."))
	g.events, err[3] = meter.Int64ObservableCounter("layover_connection_events", metric.WithDescription("What happened to clients' connections, of which no request tells."))
	all = append(all, g.capacity, g.longest, g.rejected, g.events)
	errs = append(errs, err[:]...)
	_, last := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, a)
		return nil
	}, all...)
	return errors.Join(append(errs, last)...)
}

func (g *gauges) observe(o metric.Observer, a *Admin) {
	isReady := int64(0)
	if a.phase.Load() == ready {
		isReady = 1
	}
	o.ObserveInt64(g.ready, isReady)
	o.ObserveInt64(g.build, 1, with("version", cmp.Or(a.options.Version, "unknown")))
	if front := a.front.Load(); front != nil {
		open, events := (*front)()
		o.ObserveInt64(g.connections, int64(open))
		for event, n := range events {
			o.ObserveInt64(g.events, int64(n), with("event", event))
		}
	}
	r := a.router.Load()
	if r == nil {
		return
	}
	s := r.Snapshot()
	o.ObserveInt64(g.inUse, int64(s.Lot.Active))
	o.ObserveFloat64(g.capacity, spots(s.Lot.Capacity))
	o.ObserveFloat64(g.longest, s.Lot.Longest.Seconds())
	o.ObserveInt64(g.rejected, int64(s.Lot.Rejected))
	for _, pool := range s.Plane.Pools {
		of := with("pool", pool.Name)
		o.ObserveInt64(g.workers, int64(pool.Workers), of)
		o.ObserveInt64(g.used, int64(pool.Used), of)
		o.ObserveInt64(g.waiting, int64(pool.Waiting), of)
		o.ObserveInt64(g.turns, inLine(s.Plane.Actors, pool.Name), of)
		o.ObserveInt64(g.failing, failing(s.Plane.Actors, pool.Name), of)
		for state, n := range byState(s.Plane.Actors, pool.Name) {
			o.ObserveInt64(g.actorState, n, metric.WithAttributes(attribute.String("pool", pool.Name), attribute.String("state", string(state))))
		}
	}
}

func with(key, value string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String(key, value))
}

// spots turns the lot's way of saying unlimited into that of metrics.
func spots(capacity int) float64 {
	if capacity < 0 {
		return math.Inf(1)
	}
	return float64(capacity)
}

// inLine counts the requests that wait for their turn with a pool's actors.
func inLine(actors []router.ActorSnapshot, pool string) (n int64) {
	for _, a := range actors {
		if a.Pool == pool {
			n += int64(a.InLine)
		}
	}
	return n
}

// failing counts a pool's actors whose last start failed.
func failing(actors []router.ActorSnapshot, pool string) (n int64) {
	for _, a := range actors {
		if a.Pool == pool && a.Failing {
			n++
		}
	}
	return n
}

// byState counts a pool's actors; each state has a count, so that a series
// does not end when nobody is in it.
func byState(actors []router.ActorSnapshot, pool string) map[router.State]int64 {
	n := map[router.State]int64{router.Asleep: 0, router.Waking: 0, router.Awake: 0, router.GoingToSleep: 0, router.Failed: 0}
	for _, a := range actors {
		if a.Pool == pool {
			n[a.State]++
		}
	}
	return n
}
