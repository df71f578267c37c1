//go:build unix

package local

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAStartThatHangsHoldsUpTheNextForASecondAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &osHost{starts: make(chan func())}
		defer close(h.starts)
		go h.starter()
		away := make(chan struct{})
		defer close(away)
		h.onStarter(func() { <-away })
		for i, want := range []time.Duration{starterLimit, 0, 0} {
			began := time.Now()
			started := make(chan struct{})
			h.onStarter(func() { close(started) })
			<-started
			synctest.Wait() // the starter takes the next one
			if got := time.Since(began); got != want {
				t.Errorf("start %d was carried out after %v, want %v", i+2, got, want)
			}
		}
	})
}
