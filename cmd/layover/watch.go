package main

import (
	"context"
	"time"
)

// watchEvery is how often the file is looked at. It is read, not only asked for
// its time: that finds a symbolic link that leads elsewhere (as Kubernetes
// swaps a mounted ConfigMap), a file renamed over it (as editors do) and one
// written in place, on every kind of mount, and costs less than watching all
// the folders on the way.
const watchEvery = time.Second

// watch sends to changed when look returns something else than before twice in
// a row, so that nobody reads a file that is half written. before is what is
// known already. It returns when ctx ends; a look that hangs, as one at a dead
// mount can, holds up only watch.
func watch(ctx context.Context, look func() string, before string, changed chan<- struct{}) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := before
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look()
		if now == last && now != before {
			before = now
			select {
			case changed <- struct{}{}:
			default: // one that nobody took yet is as good
			}
		}
		last = now
	}
}
