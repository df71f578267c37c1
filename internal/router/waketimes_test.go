package router

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func (t *wakeTimes) fly(actor string, line, wake time.Duration) {
	c := t.begin(actor)
	endLine := c.begin(PhaseLine)
	time.Sleep(line)
	endLine()
	endWake := c.begin(PhaseWake)
	time.Sleep(wake)
	endWake()
	t.end(actor, c, true)
}

func TestARetryIsExpectedToMakeSenseWhenTheWakeUpUnderWayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times wakeTimes
		want := func(actor string, d time.Duration) {
			t.Helper()
			if got := times.expect(actor); got != d {
				t.Errorf("expect(%s) = %v, want %v", actor, got, d)
			}
		}
		want("a", 0)
		times.fly("a", 4*time.Second, time.Second)
		times.fly("a", 4*time.Second, 3*time.Second)
		times.fly("a", 4*time.Second, 2*time.Second)
		want("a", 2*time.Second)
		want("never-seen", 2*time.Second) // like the others

		c := times.begin("a")
		end := c.begin(PhaseLine)
		time.Sleep(time.Second)
		want("a", 5*time.Second) // 3s more in line, then 2s of waking
		time.Sleep(time.Minute)
		want("a", 2*time.Second) // the line is longer than it was: any moment now
		end()
		defer c.begin(PhaseWake)()
		time.Sleep(1500 * time.Millisecond)
		want("a", 500*time.Millisecond)
		time.Sleep(time.Minute)
		want("a", 0)
	})
}

func TestWhoIsToldToComeBackCanDoSoBeforeTheFlightIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := wakeTimes{linger: 5 * time.Second}
		times.fly("a", 0, 20*time.Second)
		c := times.begin("a")
		end := c.begin(PhaseLine)
		if got := times.expect("a"); got != 4*time.Second {
			t.Errorf("in line: expect = %v, want 4s of a linger of 5s", got)
		}
		end()
		c.begin(PhaseWake)
		if got := times.expect("a"); got != 20*time.Second {
			t.Errorf("waking, which nobody ends: expect = %v, want 20s", got)
		}
	})
}

func TestAFloodOfActorsDoesNotGrowWhatIsRememberedOfTheirWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times wakeTimes
		for i := range 3 * rememberedActors {
			times.fly(fmt.Sprint(i), 0, time.Millisecond)
		}
		if n := len(times.byActor); n != rememberedActors || len(times.flying) != 0 {
			t.Errorf("%d actors are remembered and %d flying, want %d and none", n, len(times.flying), rememberedActors)
		}
	})
}
