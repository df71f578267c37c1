package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEverySaysAtOnceAndThenEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, said := make(chan struct{}), 0
		go every(done, sayEvery, func() { said++ }) // ends with done
		time.Sleep(3*sayEvery - 1)
		close(done)
		synctest.Wait()
		if said != 3 {
			t.Errorf("said %d times in a bit less than 3 intervals, want 3", said)
		}
	})
}
