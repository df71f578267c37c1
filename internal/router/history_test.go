package router_test

import (
	"slices"
	"strconv"
	"testing"

	"layover/internal/router"
	"layover/internal/router/planetest"
	"layover/parking"
)

func TestRefusedRequestsAreRememberedHoweverManyAreServed(t *testing.T) {
	r := router.New(planetest.NewScripted(1, "a"), parking.NewLot(1), router.Options{})
	recent := func() (ids []int) {
		for _, rec := range r.Snapshot().Recent {
			id, _ := strconv.Atoi(rec.ID)
			ids = append(ids, id)
		}
		return ids
	}
	if got := recent(); got != nil {
		t.Errorf("at first it remembers %v", got)
	}
	for id := range 1000 {
		rec := router.Record{ID: strconv.Itoa(id)}
		if id%100 == 7 {
			rec.Reason = router.StartFailed
		}
		r.Record(rec)
	}
	var want []int
	for id := 999; id >= 0; id-- {
		if id%100 == 7 || id >= 798 { // the last 200 served ones
			want = append(want, id)
		}
	}
	if got := recent(); !slices.Equal(got, want) {
		t.Errorf("it remembers %v, want %v", got, want)
	}
	for id := range 300 {
		r.Record(router.Record{ID: strconv.Itoa(1000 + id), Reason: router.BackingOff})
	}
	if got := recent(); len(got) != 400 || got[0] != 1299 || got[199] != 1100 || got[200] != 999 {
		t.Errorf("of very many refused ones it remembers %v", got)
	}
}
