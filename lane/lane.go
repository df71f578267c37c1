package lane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"layover/budget"
	"layover/turnstile"
)

// Options are the choices of a lane. The zero value is a polite lane to a host nobody knows anything about.
type Options struct {
	// Client sends. It must have neither a Timeout, because time is the budget's, nor a CheckRedirect, because where a request
	// may be sent on to is the lane's. Default: one with connections of its own.
	Client *http.Client
	// Hosts are further hosts that this lane speaks for, such as "www.boards.example". Requests may be for them, and redirects
	// lead to them, without the header of the request: a secret stays with the host it was meant for. Default: none.
	Hosts []string
	// Concurrency is how many requests may be under way at once. Default 2.
	Concurrency int
	// Rate is how many requests are begun in a second; rate.Inf does not limit it. Default 4.
	Rate rate.Limit
	// Burst is how many requests may begin at once after a time without any. Default 1.
	Burst int
	// Attempts is how often a request is sent at most, the first time included. Default 4.
	Attempts int
	// Retries is how many requests in a row the lane repeats, for all operations together, while the host gives no good answer.
	// A repeat costs one, an answer that is no reason for a repeat gives back a tenth, and the operations of a lane that has
	// less than one left have no repeats. Default 10.
	Retries int
	// Backoff is the wait before the first repeat that the host says no time for; it doubles with each, up to MaxBackoff, and
	// is varied by half of it in both directions. Default 500 ms.
	Backoff time.Duration
	// MaxBackoff bounds the doubling, before the variation. Default 30 s.
	MaxBackoff time.Duration
	// MaxPause bounds what a host can ask for: one that says "in a year" is asked again after this. Default 24 h.
	MaxPause time.Duration
	// MinUseful is the time that an attempt is not worth beginning with: more must be left. Default 1 ms.
	MinUseful time.Duration
	// MaxBody is how many bytes an answer may have, unpacked. Default 16 MiB.
	MaxBody int64
	// RetryStatus says which answers of status 500 and above are worth a repeat. Default: those of the package comment.
	RetryStatus func(status int) bool
	// SendDeadline tells the host, with each attempt, how much time the operation has left; see budget.WriteHeaders.
	// Default false.
	SendDeadline bool
}

// A Lane is the way to one host. Make one with New: the zero Lane is not usable. Its methods may be called from several goroutines at
// once.
type Lane struct {
	host   string
	hosts  map[string]bool
	o      Options
	client http.Client
	line   *turnstile.Turnstile
	door   *turnstile.Turnstile // one pass: whose turn at the pace it is
	pace   *rate.Limiter

	mu     sync.Mutex
	paused pause
	tokens float64 // what is left of Options.Retries
	stats  Stats   // the counters alone
}

// New is a lane to host, which is a name with or without a port, as in a URL. It refuses options that make no sense, and
// a Client that has a time or a redirect policy of its own.
func New(host string, o Options) (*Lane, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("lane to %s: %w", host, err)
	}
	l := &Lane{host: host, hosts: make(map[string]bool), o: o, client: *o.Client}
	for _, name := range append([]string{host}, o.Hosts...) {
		u, err := url.Parse("//" + name)
		if err != nil || u.Hostname() == "" || u.Host != name {
			return nil, fmt.Errorf("lane to %s: %q is not a host: write a name, and a port if it has one, like boards.example:8443", host, name)
		}
		l.hosts[hostOf(u)] = true
	}
	l.line = turnstile.NewWith(o.Concurrency, turnstile.Options{MinUseful: o.MinUseful})
	l.door = turnstile.New(1)
	l.pace = rate.NewLimiter(o.Rate, o.Burst)
	l.tokens = float64(o.Retries)
	l.paused.own = o.newBackoff()
	return l, nil
}

func (o Options) withDefaults() (Options, error) {
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"Concurrency", float64(o.Concurrency)}, {"Rate", float64(o.Rate)}, {"Burst", float64(o.Burst)},
		{"Attempts", float64(o.Attempts)}, {"Retries", float64(o.Retries)}, {"Backoff", float64(o.Backoff)},
		{"MaxBackoff", float64(o.MaxBackoff)}, {"MaxPause", float64(o.MaxPause)},
		{"MinUseful", float64(o.MinUseful)}, {"MaxBody", float64(o.MaxBody)},
	} {
		if !(n.value >= 0) {
			return o, fmt.Errorf("option %s is %v: give a positive one, or 0 for the default", n.name, n.value)
		}
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{ // without times: those are the budget's
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 1 << 20,
			MaxIdleConnsPerHost:    max(o.Concurrency, 2),
			IdleConnTimeout:        90 * time.Second,
		}}
	}
	if o.Client.Timeout != 0 {
		return o, ErrClientTimeout
	}
	if o.Client.CheckRedirect != nil {
		return o, errors.New("the Client has a CheckRedirect: leave it to the lane, and name further hosts in Options.Hosts")
	}
	setDefault(&o.Concurrency, 2)
	setDefault(&o.Rate, 4)
	setDefault(&o.Burst, 1)
	setDefault(&o.Attempts, 4)
	setDefault(&o.Retries, 10)
	setDefault(&o.Backoff, 500*time.Millisecond)
	setDefault(&o.MaxBackoff, 30*time.Second)
	setDefault(&o.MaxPause, 24*time.Hour)
	setDefault(&o.MinUseful, time.Millisecond)
	setDefault(&o.MaxBody, 16<<20)
	o.MaxBody = min(o.MaxBody, math.MaxInt64-1) // one more is read, to see that there is more
	if o.RetryStatus == nil {
		o.RetryStatus = retryStatus
	}
	return o, nil
}

func setDefault[T int | int64 | time.Duration | rate.Limit](to *T, d T) {
	if *to == 0 {
		*to = d
	}
}

// jitter is by how much a back-off of our own is varied. Tests turn it off.
var jitter = backoff.DefaultRandomizationFactor

func (o *Options) newBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{InitialInterval: min(o.Backoff, o.MaxBackoff), RandomizationFactor: jitter, Multiplier: 2, MaxInterval: o.MaxBackoff}
	b.Reset()
	return b
}

// A Request is what an operation asks of the host. It has no context and no time: those are the operation's.
type Request struct {
	Method string      // default GET
	URL    string      // absolute, http or https, of the lane's host
	Header http.Header // Accept-Encoding is the lane's; it is not changed
	Body   []byte      // sent whole with each attempt; must not be changed before Do returns
	Safe   bool        // it may arrive twice although its method is not one that may, such as a POST that only asks
}

// A Response is a whole answer.
type Response struct {
	Status   int
	Header   http.Header // without Content-Encoding and Content-Length if the body was unpacked
	Body     []byte      // unpacked; what there was of it if the status is an error and the rest did not come
	URL      *url.URL    // where it came from, after redirects
	Attempts int         // how often the request was sent for it
}

// Do sends r when its turn has come, as often as that makes sense, and returns the answer. The error is nil exactly if there is
// an answer below 400 that is not a redirect to where the lane does not lead; else it is an [*Error], which has the last answer,
// and Do returns that answer as well if there is one.
//
// It is refused, with ErrNoBudget, ErrDeadline or ErrHost and before it waits for anything, if ctx has no budget, if ctx has
// a deadline other than its budget's, or if r is for another host.
func (l *Lane) Do(ctx context.Context, r Request) (*Response, error) {
	c, err := l.newCall(ctx, r)
	if err != nil {
		return nil, l.gaveUp(ctx, c, err)
	}
	l.enter()
	defer l.leave()
	if err := l.permit(c); err != nil {
		return nil, l.gaveUp(ctx, c, err)
	}
	for {
		if err := l.turn(ctx, c); err != nil {
			return c.answer, l.gaveUp(ctx, c, err)
		}
		if c.last == nil {
			return c.answer, nil
		}
		budget.From(ctx).Note(c.last)
		if !l.worthRepeating(c) {
			return c.answer, l.gaveUp(ctx, c, nil)
		}
		if err := l.permit(c); err != nil {
			return c.answer, l.gaveUp(ctx, c, err)
		}
		if err := l.backOff(ctx, c); err != nil {
			return c.answer, l.gaveUp(ctx, c, err)
		}
	}
}

// call is one Do under way.
type call struct {
	request       Request
	method, where string // where is the URL without what may be secret
	claim         turnstile.Claim
	allowance     *allowance
	own           *backoff.ExponentialBackOff
	repeatable    bool // it may arrive twice

	answer *Response // of the last attempt that had one
	fresh  bool      // answer is the last attempt's
	last   error     // why the last attempt was not good
	unsent bool      // the host can have seen nothing of the last attempt
	hintAt time.Time // when the host wants to be asked again, said with answer; zero: it did not say

	// Guarded by Lane.mu, because what the transport sends again is counted where it runs.
	attempts int
	started  time.Time // of the last attempt
	paid     bool      // an attempt is permitted that has not begun
}

func (l *Lane) newCall(ctx context.Context, r Request) (*call, error) {
	c := &call{method: r.Method, request: r, own: l.o.newBackoff(), allowance: allowanceOf(ctx)}
	if c.method == "" {
		c.method = http.MethodGet
	}
	c.repeatable = r.Safe || idempotent(c.method)
	u, err := url.Parse(r.URL)
	if err != nil {
		return c, fmt.Errorf("%w: the URL cannot be read", ErrHost) // its text may be secret, so the reason is too
	}
	c.where = u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.Scheme != "http" && u.Scheme != "https" {
		return c, fmt.Errorf("%w: the scheme is %q, not http or https", ErrHost, u.Scheme)
	}
	if !l.hosts[hostOf(u)] {
		return c, fmt.Errorf("%w: this is the lane to %s", ErrHost, l.host)
	}
	end, ok := budget.From(ctx).End()
	if !ok {
		return c, ErrNoBudget
	}
	if d, ok := ctx.Deadline(); !ok || !d.Equal(end) {
		return c, ErrDeadline
	}
	if c.claim, ok = turnstile.ClaimFrom(ctx); !ok {
		c.claim = turnstile.NewClaim(0)
	}
	return c, nil
}

// turn makes one attempt, when its time has come. An error says why it never did, or why it was cut off.
func (l *Lane) turn(ctx context.Context, c *call) error {
	for {
		if began, err := l.tryTurn(ctx, c); began || err != nil {
			return err
		}
	}
}

// tryTurn is turn, up to a pause that began while it waited for something else: whoever waits for the end of one holds nothing.
func (l *Lane) tryTurn(ctx context.Context, c *call) (began bool, err error) {
	if err := l.sitOut(ctx); err != nil {
		return false, err
	}
	pass, err := l.queue(ctx, c)
	if err != nil {
		return false, err
	}
	defer pass.Return()
	if l.isPaused() {
		return false, nil
	}
	if err := l.keepPace(ctx, c); err != nil {
		return false, err
	}
	if l.isPaused() {
		return false, nil
	}
	return true, l.attempt(ctx, c)
}

// sitOut waits for the end of the lane's pause.
func (l *Lane) sitOut(ctx context.Context) error {
	for {
		left := l.pauseLeft()
		if left <= 0 {
			return nil
		}
		if err := l.wait(ctx, "pause", left); err != nil {
			return err
		}
	}
}

func (l *Lane) queue(ctx context.Context, c *call) (turnstile.Pass, error) {
	defer budget.From(ctx).Phase("line")()
	pass, ok := l.line.WaitTurn(ctx, c.claim)
	if ok {
		return pass, nil
	}
	if err := l.fits(ctx, 0); err != nil { // says more than the turnstile does
		return pass, err
	}
	return pass, turnstile.ErrDoomed
}

// keepPace waits until the next request may begin. One at a time reserves, the best claim first: so there is no reservation behind
// one that is given back, and all of it can be.
func (l *Lane) keepPace(ctx context.Context, c *call) error {
	defer budget.From(ctx).Phase("pace")()
	pass, ok := l.door.WaitTurn(ctx, c.claim)
	if !ok {
		return budget.Wait(ctx, 0)
	}
	defer pass.Return()
	now := time.Now()
	slot := l.pace.ReserveN(now, 1)
	d := slot.DelayFrom(now)
	if err := l.fits(ctx, d); err != nil {
		slot.CancelAt(now)
		return err
	}
	if err := budget.Wait(ctx, d); err != nil {
		slot.Cancel()
		return err
	}
	return nil
}

// backOff waits before the repeat of a request: until the host wants it, or a time of our own. During a pause it does not, because
// the next turn begins with waiting for its end.
func (l *Lane) backOff(ctx context.Context, c *call) error {
	if l.pauseLeft() > 0 {
		return nil
	}
	now := time.Now()
	d := c.hintAt.Sub(now)
	if c.hintAt.IsZero() || !c.fresh {
		d = c.own.NextBackOff()
	}
	return l.wait(ctx, "retry", max(d, 0)) // a hint may have passed while its answer's body came
}

func (l *Lane) wait(ctx context.Context, phase string, d time.Duration) error {
	if err := l.fits(ctx, d); err != nil {
		return err
	}
	defer budget.From(ctx).Phase(phase)()
	return budget.Wait(ctx, d)
}

// fits refuses a wait of d after which there is no time left for an attempt.
func (l *Lane) fits(ctx context.Context, d time.Duration) error {
	if err := budget.Wait(ctx, 0); err != nil {
		return err
	}
	return budget.From(ctx).Afford(min(d, century) + min(l.o.MinUseful, century) + 1)
}

// century is more than any budget has.
const century = 100 * 365 * 24 * time.Hour

// hostOf is the host of u in one form: lower case, without a port that is its scheme's. Without a scheme, 80 and 443 both are.
func hostOf(u *url.URL) string {
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" || port == "443" && u.Scheme != "http" || port == "80" && u.Scheme != "https" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
