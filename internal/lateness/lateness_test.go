package lateness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/lateness"
)

func TestAMachineWhoseTimersAreExactIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worst := lateness.Watch()
		time.Sleep(time.Second + time.Millisecond)
		if got := worst(); got != 0 {
			t.Errorf("it was late by %v", got)
		}
	})
}
