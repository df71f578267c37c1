package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"layover/budget"
	"layover/internal/jobs/search"
)

// Causes of a call's end before its time.
var (
	errStopping = errors.New("the server stops")
	errLeft     = errors.New("the caller went away")
)

// calls are the tool calls in progress.
type calls struct {
	most int // at a time

	mu       sync.Mutex
	byKey    map[uint64]running
	last     uint64 // key of byKey
	stopping bool
}

type running struct {
	session *mcp.ServerSession
	cancel  context.CancelCauseFunc
}

// begin derives the context of a call that stop ends. ok is false if there are
// too many.
func (c *calls) begin(ctx context.Context, session *mcp.ServerSession) (_ context.Context, end context.CancelCauseFunc, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) >= c.most {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if c.stopping {
		cancel(errStopping)
	}
	if c.byKey == nil {
		c.byKey = make(map[uint64]running)
	}
	c.last++
	key := c.last
	c.byKey[key] = running{session, cancel}
	return ctx, func(cause error) {
		cancel(cause)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byKey, key)
	}, true
}

// stop has the calls of a session answered at once with what there is.
func (c *calls) stop(session *mcp.ServerSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.byKey {
		if one.session == session {
			one.cancel(errStopping)
		}
	}
}

// stopAll has all calls answered at once with what there is, and those that come.
func (c *calls) stopAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, one := range c.byKey {
		one.cancel(errStopping)
	}
}

// operation begins the budget of a call. It ends at what comes first of when,
// the deadline that the HTTP request brought, and the longest that is allowed.
func (s *Server) operation(ctx context.Context, req *mcp.CallToolRequest, when span) (context.Context, func(), *mistake) {
	ctx, cancel, ok := s.calls.begin(ctx, req.Session)
	if !ok {
		return nil, nil, &mistake{"server", "", fmt.Sprintf("%d calls are in progress, and no more at a time: try again in a moment", s.calls.most)}
	}
	unhook := func() bool { return true }
	limit, given := s.o.Longest, false
	if p := s.posts.of(req.Extra); p != nil {
		unhook = context.AfterFunc(p.ctx, func() { cancel(p.cause()) })
		if p.limited {
			limit, given = min(limit, p.budget.Remaining()), true
		}
	}
	if when.timeout > 0 {
		limit, given = min(limit, when.timeout), true
	}
	if !given && when.deadline.IsZero() {
		limit = s.o.Default
	}
	ctx, endLimit := budget.For(ctx, limit)
	end := func() { endLimit(); unhook(); cancel(nil) }
	if when.deadline.IsZero() {
		return ctx, end, nil
	}
	ctx, endDeadline := budget.Start(ctx, when.deadline)
	if budget.From(ctx).Remaining() <= 0 {
		endDeadline()
		end()
		return nil, nil, &mistake{"deadline", when.deadline.Format(time.RFC3339Nano),
			fmt.Sprintf("this is past: the clock here says %s; timeout_seconds does not depend on clocks", time.Now().UTC().Format(time.RFC3339Nano))}
	}
	return ctx, func() { endDeadline(); end() }, nil
}

// list answers jobs.list.
func (s *Server) list(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	begun := time.Now()
	query, when, bad := s.readList(req.Params.Arguments)
	if bad != nil {
		return s.refuse(listName, bad), nil
	}
	ctx, end, bad := s.operation(ctx, req, when)
	if bad != nil {
		return s.refuse(listName, bad), nil
	}
	defer end()
	heart := s.beat(ctx, req)
	result, err := s.engine.List(ctx, query, heart.tell)
	heart.stop()
	if err != nil {
		return s.failed(listName, err)
	}
	list := NewList(result)
	s.o.Log.Info("call", "tool", listName, "jobs", len(list.Jobs), "complete", list.Complete, "stop", list.StopReason,
		"cause", causeOf(ctx), "took", time.Since(begun), "ledger", result.Ledger.String())
	return answer(list.Text(s.o.TextBytes), list), nil
}

// get answers jobs.get.
func (s *Server) get(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	begun := time.Now()
	id, limit, when, bad := s.readGet(req.Params.Arguments)
	if bad != nil {
		return s.refuse(getName, bad), nil
	}
	ctx, end, bad := s.operation(ctx, req, when)
	if bad != nil {
		return s.refuse(getName, bad), nil
	}
	defer end()
	heart := s.beat(ctx, req)
	found, err := s.engine.Get(ctx, id, limit)
	heart.stop()
	if err != nil {
		return s.failed(getName, err)
	}
	g := NewGet(found)
	s.o.Log.Info("call", "tool", getName, "id", id, "status", g.Status, "cause", causeOf(ctx), "took", time.Since(begun), "ledger", found.Ledger.String())
	result := answer(g.Text(), g)
	result.IsError = g.Job == nil
	return result, nil
}

func causeOf(ctx context.Context) string {
	if err := context.Cause(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func answer(text string, data any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: data}
}

// refuse answers a call whose arguments cannot be used, so that whoever made it
// can make a better one.
func (s *Server) refuse(tool string, bad *mistake) *mcp.CallToolResult {
	s.o.Log.Info("refused", "tool", tool, "argument", bad.name, "want", bad.want)
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: bad.Error()}}}
}

func (s *Server) failed(tool string, err error) (*mcp.CallToolResult, error) {
	if bad := mistakeOf(err); bad != nil {
		return s.refuse(tool, bad), nil
	}
	return nil, err
}

// heart tells a client that its call is alive.
type heart struct {
	changed chan struct{} // nil: nobody wants to know
	end     context.CancelFunc
	ended   chan struct{}

	mu     sync.Mutex
	counts search.Progress
}

// leastPace is the least time between two notifications.
const leastPace = 250 * time.Millisecond

// beat begins to send progress, if the call has a token for it.
func (s *Server) beat(ctx context.Context, req *mcp.CallToolRequest) *heart {
	h := new(heart)
	token := req.Params.GetProgressToken()
	if token == nil {
		return h
	}
	ctx, h.end = context.WithCancel(ctx)
	h.changed, h.ended = make(chan struct{}, 1), make(chan struct{})
	go h.run(ctx, s.o.Heartbeat, func(p *mcp.ProgressNotificationParams) error {
		p.ProgressToken = token
		return req.Session.NotifyProgress(ctx, p)
	})
	return h
}

// tell has new counts sent soon. It does not wait.
func (h *heart) tell(p search.Progress) {
	h.mu.Lock()
	h.counts = p
	h.mu.Unlock()
	if h.changed == nil {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// stop ends it: when it returns, nothing more is sent.
func (h *heart) stop() {
	if h.changed == nil {
		return
	}
	h.end()
	<-h.ended
}

func (h *heart) run(ctx context.Context, every time.Duration, send func(*mcp.ProgressNotificationParams) error) {
	defer close(h.ended)
	silence := time.NewTimer(every)
	defer silence.Stop()
	last, sent := -1.0, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
		case <-h.changed:
			if early := leastPace - time.Since(sent); early > 0 {
				silence.Reset(early)
				continue
			}
		}
		p := h.params(ctx)
		if p.Progress <= last {
			continue
		}
		if send(p) != nil {
			return // who asked does not listen any more
		}
		last, sent = p.Progress, time.Now()
		silence.Reset(every)
	}
}

// params are the counts now. The whole part of the progress is how many sources
// have answered; the rest is the part of the time that has gone, so that it
// grows even while nothing else happens. The last step is the answer itself.
func (h *heart) params(ctx context.Context) *mcp.ProgressNotificationParams {
	h.mu.Lock()
	p := h.counts
	h.mu.Unlock()
	b := budget.From(ctx)
	left := b.Remaining()
	spent := b.Spent()
	message := fmt.Sprintf("%d of %d sources answered, %d pages, %d postings read, %d match, %d s left",
		p.Answered, p.Sources, p.Pages, p.Received, p.Matched, int(left.Seconds()))
	if p.Sources == 0 {
		message = fmt.Sprintf("waiting for the board, %d s left", int(left.Seconds()))
	}
	return &mcp.ProgressNotificationParams{
		Progress: float64(p.Answered) + spent.Seconds()/(spent+left+1).Seconds(), Total: float64(p.Sources + 1), Message: message,
	}
}
