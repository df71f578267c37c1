package proxy

import (
	"errors"
	"net/http"
	"sync"
	"syscall"
	"time"

	"layover/budget"
	"layover/internal/answer"
	"layover/internal/router"
)

const (
	// pageEvery is how often a waiting page says how long it has waited, in some
	// 120 bytes, and what is new: a count that stands still looks as if it were dead.
	pageEvery = time.Second
	// restartTime is how long a page that moves on in a stop waits before: connections
	// are refused until the next router listens, and browsers then show an error of
	// their own, which does not go on by itself.
	restartTime = 5 * time.Second
)

// page is the waiting page of one request. The handler makes it and ends it;
// in between a timer of its own writes to the client.
//
//	waits --- route.WaitingPage ---> begun --- once a second: what is new --+
//	  | served or refused before       |  ^---------------------------------+
//	  v                                v
//	closed, nothing was sent        closed: moved on, or refused
type page struct {
	x     *exchange
	asked string // the actor that was asked for
	quiet func() // ends the interim answers

	mu      sync.Mutex // held while writing: the end of the wait waits for it
	timer   *time.Timer
	pieces  answer.WaitingPage
	begun   bool   // its header was sent
	closed  bool   // nothing is written any more but by the handler
	over    bool   // the wait is; the actor may take no connections yet
	restart bool   // a stop ended the wait: the browser is sent to the next router
	actor   string // that is waited for now: asked, or its fallback
	told    string // the last state
}

// waitingPage makes the page of a request that begins to wait for
// actor; the function it returns is Ask.OnWait's. quiet is called once the page begins, or the wait ends.
func (x *exchange) waitingPage(actor string, quiet func()) (stop func()) {
	p := x.page
	if p == nil {
		p = &page{x: x, asked: x.asked(), actor: actor, quiet: quiet}
		x.page = p
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(x.route.WaitingPage-time.Since(x.arrived), p.tick)
		return p.pause
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = false
	p.actor = actor
	if !p.begun { // the wait for a fallback
		p.quiet = quiet
		p.timer.Reset(x.route.WaitingPage - time.Since(x.arrived))
		p.closed = false
	}
	return p.pause
}

// pause ends the wait: a page that has not begun will not.
func (p *page) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet()
	p.over = true
	if !p.begun {
		p.closeLocked()
	}
}

func (p *page) closeLocked() {
	p.closed = true
	p.timer.Stop()
}

// close stops the timer for good.
func (p *page) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

// tick sends what is new.
func (p *page) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.x.proxy.handover.over() && !p.over {
		// Its actor would be woken only to send the browser to the next router.
		if p.begun {
			p.restart = true
			p.x.spend()
		}
		return
	}
	var text []byte
	if !p.begun {
		text = p.beginLocked()
	}
	if now := string(p.pieces.State(p.actor, p.outlookLocked())); now != p.told {
		p.told = now
		text = append(text, now...)
	}
	text = append(text, p.pieces.Waited(time.Since(p.x.arrived).Round(time.Second))...)
	if p.sendLocked(text) {
		p.timer.Reset(pageEvery)
	}
}

func (p *page) outlookLocked() router.Outlook {
	if p.over {
		return router.Outlook{Phase: router.PhaseAttempt}
	}
	return p.x.proxy.router.Outlook(p.x.budget, p.actor)
}

// beginLocked writes the header, and returns the first piece.
func (p *page) beginLocked() []byte {
	p.begun = true
	p.quiet() // it would send interim answers after the final one
	x := p.x
	p.pieces = answer.WaitingPage{Actor: p.asked, RequestID: x.id, Here: answer.Here(rawPath(x.in), x.in.URL.RawQuery)}
	h := x.w.Header()
	h[requestIDHeader] = []string{x.id}
	p.pieces.Header(h)
	x.w.WriteHeader(http.StatusAccepted)
	return p.pieces.Begin()
}

// sendLocked reports whether text is on its way; else the client counts as gone.
// A client that does not read would hold its request, and a spot, beyond the end
// of the wait.
func (p *page) sendLocked(text []byte) bool {
	rc := http.NewResponseController(p.x.w)
	rc.SetWriteDeadline(time.Now().Add(interimTimeout))
	_, err := p.x.w.Write(text)
	if err = errors.Join(err, rc.Flush()); err != nil {
		p.closeLocked()
		p.x.cancel(errClientLeft)
		p.x.spend()
		return false
	}
	rc.SetWriteDeadline(time.Time{})
	return true
}

// finish sends the last piece.
func (p *page) finish(text []byte) (sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
	return p.sendLocked(text)
}

// sentAway ends a page whose wait a stop has ended, and reports whether it is one.
func (x *exchange) sentAway() bool {
	x.page.mu.Lock()
	restart := x.page.restart
	x.page.mu.Unlock()
	if !restart || x.client.Err() != nil {
		return false
	}
	x.record(http.StatusAccepted, nil)
	x.page.finish(x.page.pieces.MoveOnLater(restartTime))
	return true
}

// paged reports whether the request is answered by a waiting page.
func (x *exchange) paged() bool {
	if x.page == nil {
		return false
	}
	x.page.mu.Lock()
	defer x.page.mu.Unlock()
	return x.page.begun
}

// moveOn ends the waiting page of a request that has a ride, once the ride's
// target can be reached. The ride stays for a moment: the browser asks again, and
// if the actor were put to sleep in between, or somebody else had its turn, it
// would wait again from the begin.
func (x *exchange) moveOn() {
	for try := 0; ; try++ {
		refusal := x.reach()
		if refusal == nil {
			break
		}
		if refusal.Reason == router.ActorUnreachable {
			refusal = x.retry(try, refusal)
		}
		if refusal != nil {
			x.refuse(refusal)
			return
		}
	}
	x.stopWatch()
	x.record(http.StatusAccepted, nil)
	// Before the page ends, because the browser may be faster than this goroutine.
	withdraw, stays := x.proxy.handover.leave(x.handoverKey(), handed{x.ride, x.actor, x.instead})
	x.ride = nil
	last := x.page.pieces.MoveOn()
	if !stays {
		last = x.page.pieces.MoveOnLater(restartTime)
	}
	if !x.page.finish(last) {
		withdraw()
	}
}

// reach connects to the ride's target, as an attempt would.
func (x *exchange) reach() *router.Error {
	endPhase := budget.From(x.budget).Phase(router.PhaseAttempt)
	defer endPhase()
	conn, err := x.proxy.actors.dial(x.budget, "tcp", x.ride.Target.Addr)
	switch {
	case err == nil:
		conn.Close()
		return nil
	case x.client.Err() != nil:
		return x.ended(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		x.ride.Unreachable()
	}
	return router.Fail(router.ActorUnreachable, "the actor takes no connections", err)
}
