package proxy

import (
	"net/http"

	"layover/internal/answer"
	"layover/internal/router"
)

// glance gets a ride if the actor is awake, else its state, for a route that
// wakes nobody.
func (x *exchange) glance() *router.Error {
	ride, state, err := x.proxy.router.Glance(x.budget, router.Ask{Actor: x.actor, OnWait: x.onWait})
	if err != nil {
		return x.turnedAway(err)
	}
	x.state = state
	if ride != nil {
		x.ride = ride
		x.wait.Add(ride.Wait)
	}
	return nil
}

// tell answers the request with the actor's state: asleep is not unhealthy.
func (x *exchange) tell() {
	x.stopWatch()
	x.wait.Wake = router.WakeSpared
	x.record(http.StatusOK, nil)
	x.reply(func() { answer.WriteState(x.w, x.in, x.actor, x.state) })
}
