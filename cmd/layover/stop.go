package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"layover/internal/cli"
)

// sayEvery is how often a stop says what it waits for.
const sayEvery = 10 * time.Second

// stop ends the server: not ready; requests are answered or end by their
// budget; then the actors are stopped. Something on again ends all waiting.
func (s *server) stop(again <-chan os.Signal) error {
	first := time.Now()
	s.tell(stateStopping)
	ctx, hurry := context.WithCancelCause(context.Background())
	defer hurry(nil)
	go func() { // ends with ctx
		if got := cli.Another(ctx, first, again); got != nil {
			s.log.Warn("stopping at once", "signal", got.String())
			hurry(cli.ErrCutOff)
		}
	}()
	s.admin.SetReady(false)
	most := s.config.DrainDelay + s.config.drainTimeout()
	draining, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	drained := make(chan struct{})
	go func() { // ends with drained
		began := time.Now()
		every(drained, sayEvery, func() { s.sayWhatIsLeft(most - time.Since(began)) })
	}()
	cli.Pause(ctx, s.config.DrainDelay)
	var own, envoys error
	var fronts sync.WaitGroup // or one would have only what the other leaves of the time
	fronts.Go(func() { own = s.proxy.Shutdown(draining) })
	fronts.Go(func() { envoys = s.envoy.shutdown(draining) })
	fronts.Wait()
	cut := cmp.Or(own, envoys)
	close(drained)
	if cut != nil {
		s.log.Warn("requests were cut off", "cause", cut)
	}
	s.closeAdmin()
	err := s.plane.Stop(ctx)
	if s.adminServer != nil {
		s.adminServer.Close()
	}
	s.traces.Close()
	s.log.Info("stopped")
	if errors.Is(cut, cli.ErrCutOff) {
		return errors.Join(cli.ErrCutOff, err)
	}
	return err
}

// every calls say now and every d until done is closed.
func every(done <-chan struct{}, d time.Duration, say func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		say()
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

// sayWhatIsLeft logs the requests that a stop waits for, if there are any.
func (s *server) sayWhatIsLeft(atMost time.Duration) {
	seen := s.router.Snapshot()
	with := 0
	for _, a := range seen.Plane.Actors {
		with += a.InFlight
	}
	if seen.Lot.Active+with > 0 {
		s.log.Info("stopping: waits for requests; a second signal cuts them off",
			"parked", seen.Lot.Active, "with_actors", with, "at_most", atMost.Round(time.Second))
	}
}

// drainSlack is what a stop gives beyond the longest budget: requests may come
// up to 1.5 s after its begin (see Proxy.Shutdown), and must have their answers.
const drainSlack = 2 * time.Second

// drainTimeout is the most time that a stop gives to requests: the configured
// one, else that of the longest budget and drainSlack.
func (c *config) drainTimeout() time.Duration {
	if c.DrainTimeout > 0 {
		return c.DrainTimeout
	}
	var longest time.Duration
	for _, rt := range c.Routes {
		longest = max(longest, rt.MaxBudget)
	}
	return longest + drainSlack
}
