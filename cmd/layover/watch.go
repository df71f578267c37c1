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

// watch sends to changed when look returns the same twice in a row, so that
// nobody reads a file that is half written, and that is not what tried returns,
// the last that was put into force or refused. It sends again until that has
// changed: whoever reads then may have found the file missing, and gone back to
// before. It returns when ctx ends; a look that hangs, as one at a dead mount
// can, holds up only watch.
func watch(ctx context.Context, look, tried func() string, changed chan<- struct{}) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := tried()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look()
		if now == last && now != tried() {
			select {
			case changed <- struct{}{}:
			default: // one that nobody took yet is as good
			}
		}
		last = now
	}
}
