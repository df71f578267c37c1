package router_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"layover/budget"
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

func TestWhoWaitsIsNamedWithWhatItsFlightDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := planetest.NewScripted(1, "a", "b")
		plane.Start = func(context.Context, string) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		r := router.New(plane, parking.NewLot(parking.Unlimited), router.Options{})
		first := send(r, "a", 0, time.Hour)
		synctest.Wait()
		began := time.Now()
		ctx, cancel := budget.For(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error)
		go func() {
			// b has no worker in time, so it waits for the fallback next.
			ride, err := r.Route(ctx, router.Ask{Actor: "b", ID: "id-1", Fallback: "a", FallbackAfter: 3 * time.Second})
			if err == nil {
				ride.Done()
			}
			done <- err
		}()
		waits := func(actor string, want ...parking.Span) {
			t.Helper()
			synctest.Wait()
			for _, w := range r.Waiting() {
				if w.ID != "id-1" {
					continue
				}
				if end, _ := w.Budget.End(); w.Actor != actor || !slices.Equal(w.Flight, want) || !end.Equal(began.Add(time.Minute)) {
					t.Errorf("it waits for %s with %v until %v, want %s, %v", w.Actor, w.Flight, end, actor, want)
				}
				return
			}
			t.Error("id-1 is not among those who wait")
		}
		waits("b", parking.Span{Name: router.PhaseLine, From: began})
		time.Sleep(4 * time.Second)
		waits("a", parking.Span{Name: router.PhaseWake, From: began})
		first.mustServe(t).Done()
		if err := <-done; err != nil {
			t.Errorf("Route = %v", err)
		}
		if left := r.Waiting(); len(left) != 0 {
			t.Errorf("%v still wait", left)
		}

		next := send(r, "b", 0, time.Hour) // the actor a is idle, and is put to sleep for it
		synctest.Wait()
		if got := r.Waiting(); len(got) != 1 || len(got[0].Flight) == 0 || got[0].Flight[0].From.Before(began.Add(5*time.Second)) {
			t.Errorf("a later flight has phases of an earlier one: %+v", got)
		}
		next.mustServe(t).Done()
	})
}
