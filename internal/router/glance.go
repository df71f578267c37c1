package router

import "context"

// Glance returns a ride to ask.Actor if it is awake, and else no ride but what
// the actor is doing. Nothing is woken or kept awake by it, except that an actor
// stays for as long as it has the ride. Glance waits only for a turn with an
// actor that is awake, like Route. The error is an *Error; an actor in state
// Failed is one.
func (r *Router) Glance(ctx context.Context, ask Ask) (*Ride, State, error) {
	if over(ctx) != nil {
		return nil, "", r.ended(ctx, ask.Actor, DeadlinePast)
	}
	ride, state, err := r.glance(ask.Actor)
	if ride == nil {
		return nil, state, err
	}
	turn, busy := r.gates.enter(ctx, ask.Actor)
	if busy != nil {
		ride.Done()
		return nil, "", busy
	}
	if turn.waits() {
		ride.Done() // or the wait would keep the actor awake
		if ask.OnWait != nil {
			defer ask.OnWait(ask.Actor)()
		}
		if err := r.takeTurn(ctx, ask.Actor, turn); err != nil {
			turn.done()
			return nil, "", err
		}
		if ride, state, err = r.glance(ask.Actor); ride == nil {
			turn.done()
			return nil, state, err
		}
	}
	ride.turn = turn
	return ride, state, nil
}

func (r *Router) glance(actor string) (*Ride, State, error) {
	target, use, state, err := r.plane.Glance(actor)
	if err != nil {
		return nil, "", explained(err, actor)
	}
	if use == nil {
		return nil, state, nil
	}
	return &Ride{Target: target, Wait: Wait{Wake: WakeNone}, use: use}, state, nil
}
