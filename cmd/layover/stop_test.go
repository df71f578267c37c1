package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestASecondSignalWithin200msIsTheSameStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := make(chan os.Signal, 2)
		got, began := make(chan time.Duration, 1), time.Now()
		go func() { // the test reads got
			if another(t.Context(), began, again) == os.Interrupt {
				got <- time.Since(began)
			}
		}()
		again <- syscall.SIGTERM
		time.Sleep(sameStop - 1)
		again <- syscall.SIGTERM
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		again <- os.Interrupt
		if took := <-got; took != sameStop {
			t.Errorf("the stop is hurried after %v, want %v", took, sameStop)
		}
	})
}

func TestASignalThatNeverComesEndsWithTheStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := another(ctx, time.Now(), nil); got != nil {
		t.Errorf("another = %v, want none", got)
	}
}

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
