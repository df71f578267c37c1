// Package lane sends what an operation asks of one remote host, at that host's pace and on the operation's time.
//
// There is one Lane per host, shared by all operations. It has a line (who is next, by the job's claim), a pace (how often), a
// pause (not before) and an allowance for repeats. A request has no time of its own: everything it waits for is paid from the
// budget that its operation's context carries.
//
//	boards, err := lane.New("boards.example", lane.Options{Concurrency: 2, Rate: 4})
//	...
//	ctx, cancel := budget.For(turnstile.Begin(ctx, 0), 20*time.Second) // once per operation
//	defer cancel()
//	answer, err := boards.Do(ctx, lane.Request{URL: "https://boards.example/jobs?page=1"})
//
// # One request
//
// Do waits out the lane's pause, stands in line with the claim of ctx's job, keeps the pace, and sends. What came back may have
// to be sent again: then the pass goes to the next in line before the wait for it begins. Each of these is a phase of the
// budget's ledger: "pause", "line", "pace", "attempt" and "retry". The pass encloses the pace and the answer's body, which
// is read whole, at most Options.MaxBody of it; answers that are meant to be streamed are out of this package's scope.
//
// Nothing is begun that what remains of the budget cannot pay for, strictly: a wait of exactly what is left is too long. Do then
// returns at once, with the last answer, and with the time at which asking again makes sense if the host or the lane's pause says
// one. So Do has always returned by the end of the budget, provided that the http.RoundTripper heeds its request's context, as
// that of net/http does.
//
// # What is sent again
//
// A request of which the host can have seen nothing: there was no connection, or HTTP/2 refused the stream. Further what may
// arrive twice: GET, HEAD, PUT, DELETE, OPTIONS and TRACE, and what Request.Safe says so of, after a broken connection, a body
// that ended early, or one of these statuses, and no other of the 4xx ever:
//
//	408 Request Timeout        500 Internal Server Error
//	425 Too Early              502 Bad Gateway
//	429 Too Many Requests      503 Service Unavailable
//	                           504 Gateway Timeout
//
// Not sent again is a request whose host has no address, whose certificate does not hold, or whose error wraps a
// [*backoff.PermanentError], which is how a dialer says that it will not.
//
// Repeats are limited three times: per request (Options.Attempts), per operation (Allow), and for all operations of the lane
// together (Options.Retries), so that a sick host is not hammered. What net/http sends again by itself, on a connection that had
// gone stale or for a stream that was refused, counts like any other repeat, and its pace is paid afterwards. (When HTTP/2 streams
// are refused several times, it waits a second or two in between, on the pass of the attempt.)
//
// # When the host says when
//
// A Retry-After, in seconds or as a date, is obeyed to the letter up to Options.MaxPause: never earlier, and never by waiting past
// the end. With a 429 or a 503 it holds for the whole lane. A 429 without one pauses the lane for a back-off of the lane's own.
// Those who wait for the end of a pause hold nothing, neither pass nor connection. Like a budget a pause counts time awake: a
// machine that was suspended in one waits for the rest of it, rather than ask too early because a clock was set, and the times at
// which asking again makes sense are reckoned from now. The pause can be kept over a restart of the program: State and Restore.
//
// # Concurrency
//
// Everything may be called from several goroutines at once. A lane has one mutex, held for a few instructions; inside it only an
// allowance's may be taken. It starts no goroutine. It waits on channels and timers only, so it can be
// tested with testing/synctest.
package lane
