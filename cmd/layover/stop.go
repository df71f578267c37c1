package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// sameStop is how soon after a first signal a second one is still part of
	// it: timeout(1), for one, signals its child and then the child's group.
	sameStop = 200 * time.Millisecond
	// sayEvery is how often a stop says what it waits for.
	sayEvery = 10 * time.Second
)

// errCutOff is the end of a stop that a second signal did not let finish.
var errCutOff = errors.New("a second signal: stopped at once, requests were cut off")

// stop ends the server: not ready; requests are answered or end by their
// budget; then the actors are stopped. Something on again ends all waiting.
func (s *server) stop(again <-chan os.Signal) error {
	first := time.Now()
	s.tell(stateStopping)
	ctx, hurry := context.WithCancelCause(context.Background())
	defer hurry(nil)
	go func() { // ends with ctx
		if got := another(ctx, first, again); got != nil {
			s.log.Warn("stopping at once", "signal", got.String())
			hurry(errCutOff)
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
	pause(ctx, s.config.DrainDelay)
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
	if s.traces != nil {
		s.traces.close()
	}
	s.log.Info("stopped")
	if errors.Is(cut, errCutOff) {
		return errors.Join(errCutOff, err)
	}
	return err
}

// another returns the next signal that is not part of the one at first, or nil
// when ctx ends.
func another(ctx context.Context, first time.Time, again <-chan os.Signal) os.Signal {
	for {
		select {
		case <-ctx.Done():
			return nil
		case got := <-again:
			if time.Since(first) >= sameStop {
				return got
			}
		}
	}
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

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
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
