// Package lateness tells a test of real time how late the machine itself was
// meanwhile: on a busy one each step of an answer waits for a processor, which
// is no fault of who answers. At rest it is some milliseconds at most, so a
// bound that is widened by it stays nearly as sharp as it was.
package lateness

import "time"

const step = 5 * time.Millisecond

// Watch begins to measure. The returned function ends that, and must be called
// once; it returns the most by which a timer of this process was late.
func Watch() (worst func() time.Duration) {
	stop, measured := make(chan struct{}), make(chan time.Duration)
	go func() { // ends with the returned function
		tick := time.NewTicker(step)
		defer tick.Stop()
		var late time.Duration
		for last := time.Now(); ; {
			select {
			case <-stop:
				measured <- max(late, time.Since(last)-step)
				return
			case <-tick.C:
				now := time.Now()
				late, last = max(late, now.Sub(last)-step), now
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-measured
	}
}
