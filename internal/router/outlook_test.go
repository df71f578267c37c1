package router_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

func TestAnOutlookSaysThePhaseAndThePlaceInItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a", "b", "c")
		plane.Start = func(context.Context, string) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		check := func(actor string, want router.Outlook) {
			t.Helper()
			time.Sleep(time.Second) // no look is older
			synctest.Wait()
			if got := r.Outlook(t.Context(), actor); got != want {
				t.Errorf("Outlook of %s = %+v, want %+v", actor, got, want)
			}
		}
		check("a", router.Outlook{})
		first := send(r, "a", 0, time.Hour)
		check("a", router.Outlook{Phase: router.PhaseWake})
		second, third := send(r, "b", 5, time.Hour), send(r, "c", 5, time.Hour)
		check("b", router.Outlook{Phase: router.PhaseLine, Place: 1})
		check("c", router.Outlook{Phase: router.PhaseLine, Place: 2})
		urgent := send(r, "c", 1, time.Hour)
		check("c", router.Outlook{Phase: router.PhaseLine, Place: 1})
		check("b", router.Outlook{Phase: router.PhaseLine, Place: 2})
		urgent.cancel()
		urgent.mustRefuse(t, router.ClientGone)
		check("c", router.Outlook{Phase: router.PhaseLine, Place: 2})

		first.mustServe(t).Done() // b has its worker
		check("b", router.Outlook{Phase: router.PhaseWake})
		check("c", router.Outlook{Phase: router.PhaseLine, Place: 1})
		second.mustServe(t).Done()
		ride := third.mustServe(t)
		check("c", router.Outlook{})
		ride.Done()
		end := plane.BeginSleep("c")
		again := send(r, "c", 0, time.Hour)
		check("c", router.Outlook{Phase: router.PhaseSleep})
		end()
		check("c", router.Outlook{Phase: router.PhaseWake})
		again.mustServe(t).Done()
	})
}

// Whoever asks is told the place from one look at the line, which is not kept
// for longer than rankingAge (250 ms).
func TestAnOutlookIsAtMostAQuarterOfASecondOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router.New(planetest.NewScripted(0, "a", "b"), parking.NewLot(parking.Unlimited), router.Options{})
		first := send(r, "a", 0, time.Hour)
		synctest.Wait()
		second := send(r, "b", 0, time.Hour)
		synctest.Wait()
		place := func() int { return r.Outlook(t.Context(), "b").Place }
		if got := place(); got != 2 {
			t.Errorf("place %d, want 2", got)
		}
		first.cancel()
		first.mustRefuse(t, router.ClientGone)
		time.Sleep(250*time.Millisecond - 1)
		if got := place(); got != 2 {
			t.Errorf("just before its time the look was made again: place %d", got)
		}
		time.Sleep(time.Nanosecond)
		if got := place(); got != 1 {
			t.Errorf("after 250 ms: place %d, want 1", got)
		}
		second.cancel()
		second.mustRefuse(t, router.ClientGone)
	})
}
