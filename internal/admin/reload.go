package admin

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// How many problems of a file are shown, and how many bytes of each.
const (
	maxProblems      = 20
	maxProblemLength = 300
)

// config is what /statusz.json tells of the configuration file.
type config struct {
	Digest   string     `json:"digest"` // of the text in force: SHA-256, in hex
	Since    time.Time  `json:"since"`  // when it was put into force
	Failed   *time.Time `json:"failed"` // when a newer text was refused; null: none was
	Problems []string   `json:"problems,omitempty"`

	reloads, failures int64
}

// Reloaded says that the configuration file was read: a text with that digest
// is in force, and with problems it stays in force, because of them. The first
// call is that of the start.
func (a *Admin) Reloaded(digest string, problems []string) {
	now := time.Now()
	a.configMu.Lock()
	defer a.configMu.Unlock()
	c := a.config
	switch {
	case c == nil:
		c = &config{Digest: digest, Since: now}
	case len(problems) == 0:
		c = &config{Digest: digest, Since: now, reloads: c.reloads + 1, failures: c.failures}
	default:
		c = &config{Digest: c.Digest, Since: c.Since, Failed: &now, reloads: c.reloads, failures: c.failures + 1}
	}
	for _, line := range problems[:min(len(problems), maxProblems)] {
		c.Problems = append(c.Problems, line[:min(len(line), maxProblemLength)])
	}
	a.config = c
}

// configNow returns what was said last; it is not changed any more.
func (a *Admin) configNow() *config {
	a.configMu.Lock()
	defer a.configMu.Unlock()
	return a.config
}

// addReloads adds the instruments that tell of the configuration file.
func addReloads(meter metric.Meter, a *Admin) error {
	reloads, err1 := meter.Int64ObservableCounter("layover_config_reloads", metric.WithDescription("Times that the configuration file was read again, by what came of it."))
	good, err2 := meter.Int64ObservableGauge("layover_config_last_reload_successful", metric.WithDescription("1 unless the last text of the configuration file was refused."))
	since, err3 := meter.Float64ObservableGauge("layover_config_in_force_since_timestamp", metric.WithUnit("s"), metric.WithDescription("When the configuration in force was put into force, in Unix time."))
	_, err4 := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := a.configNow()
		if c == nil {
			return nil
		}
		o.ObserveInt64(reloads, c.reloads, with("result", "done"))
		o.ObserveInt64(reloads, c.failures, with("result", "refused"))
		successful := int64(1)
		if c.Failed != nil {
			successful = 0
		}
		o.ObserveInt64(good, successful)
		o.ObserveFloat64(since, float64(c.Since.UnixMilli())/1000)
		return nil
	}, reloads, good, since)
	return errors.Join(err1, err2, err3, err4)
}
