package budget

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// header is a header's name, in both forms in which maps have it.
type header struct{ canonical, lower string }

var (
	deadlineHeader = header{"Operation-Deadline", "operation-deadline"} // RFC 3339; read, never written
	timeoutHeader  = header{"Operation-Timeout", "operation-timeout"}   // 2500ms, 10s
	grpcHeader     = header{"Grpc-Timeout", "grpc-timeout"}             // up to 8 digits and one of HMSmun
	envoyHeader    = header{"X-Envoy-Upstream-Rq-Timeout-Ms", "x-envoy-upstream-rq-timeout-ms"}
	contentType    = header{"Content-Type", "content-type"}
)

// ErrMalformed and ErrPast are what [ReadHeaders] refuses: the one is the sender's mistake (400, INVALID_ARGUMENT), the other
// a deadline that has passed (504, DEADLINE_EXCEEDED). The error that wraps them says which header, which value, and what
// to send instead.
var (
	ErrMalformed = errors.New("budget: malformed time header")
	ErrPast      = errors.New("budget: deadline already past")
)

// ReadHeaders returns the shortest time that the headers allow, greater than zero: Operation-Deadline, Operation-Timeout,
// grpc-timeout and x-envoy-upstream-rq-timeout-ms, of which there may be several, with several values each. ok is false when
// there is none of them: the caller set no deadline. Any value that is malformed, negative, zero, or further away than 100
// years is an error that wraps ErrMalformed, whatever the others say; of grpc-timeout the protocol allows longer ones, which
// count as 100 years. A deadline that has passed is an error that wraps ErrPast. The wall clock is read if there is
// an Operation-Deadline.
//
// h may be an http.Header or a gRPC metadata.MD: keys are looked up in canonical and in lower-case form. Pass the result to
// For at once.
func ReadHeaders(h map[string][]string) (d time.Duration, ok bool, err error) {
	var past error
	d = century
	for _, f := range forms {
		for _, key := range [2]string{f.canonical, f.lower} {
			for _, value := range h[key] {
				left, why := f.parse(strings.Trim(value, " \t"))
				if why != "" {
					return 0, false, fmt.Errorf("%w: %s: %s %s; send %s", ErrMalformed, f.canonical, excerpt(value), why, f.want)
				}
				if left <= 0 {
					past = fmt.Errorf("%w: %s: %s was %s ago by this host's clock; "+
						"if the hosts' clocks differ, send %s: 10s instead", ErrPast, f.canonical, excerpt(value), ago(-left), timeoutHeader.canonical)
				}
				d, ok = min(d, left), true
			}
		}
	}
	if past != nil {
		return 0, false, past
	}
	if !ok {
		return 0, false, nil
	}
	return d, true, nil
}

// WriteHeaders puts the time that ctx has left on an outgoing request: what remains of its budget, or less if ctx has an
// earlier deadline. Call it for every attempt, as late as possible. Only durations are sent, in whole milliseconds
// rounded down, because hosts' clocks differ:
//
//   - Operation-Timeout, always;
//   - grpc-timeout, if h has one or its content type is gRPC's;
//   - x-envoy-upstream-rq-timeout-ms, if h has one.
//
// Operation-Deadline is removed. If ctx is done or less than a millisecond is left it returns an error, h is unchanged, and
// the request must not be sent. If ctx has neither budget nor deadline h is unchanged too: no deadline stays none.
//
// Keys are written in lower case if h has a lower-case key, as a metadata.MD does, else in canonical form.
func WriteHeaders(ctx context.Context, h map[string][]string) error {
	if err := over(ctx); err != nil {
		return err
	}
	left, limited := remaining(ctx)
	if !limited {
		return nil
	}
	if left < time.Millisecond {
		return From(ctx).refusal(time.Millisecond, left)
	}
	isGRPC, isEnvoy, lower := has(h, grpcHeader) || speaksGRPC(h), has(h, envoyHeader), isLower(h)
	for _, f := range forms {
		delete(h, f.canonical)
		delete(h, f.lower)
	}
	ms := left.Milliseconds()
	h[timeoutHeader.key(lower)] = []string{strconv.FormatInt(ms, 10) + "ms"}
	if isGRPC {
		h[grpcHeader.key(lower)] = []string{formatGRPC(ms)}
	}
	if isEnvoy {
		h[envoyHeader.key(lower)] = []string{strconv.FormatInt(ms, 10)}
	}
	return nil
}

// form is one header's notation. parse returns the time left, which only a deadline may have none of, or what is wrong.
type form struct {
	header
	want  string
	parse func(string) (left time.Duration, wrong string)
}

var forms = [...]form{
	{timeoutHeader, "a time above zero with its unit, like 2500ms or 10s", parseTimeout},
	{deadlineHeader, "an RFC 3339 time like 2030-01-31T12:00:00Z, or better Operation-Timeout: 10s", parseDeadline},
	{grpcHeader, "1 to 8 digits, above zero, and one of the units H M S m u n, like 2500m", parseGRPC},
	{envoyHeader, "whole milliseconds above zero, like 2500", func(v string) (time.Duration, string) {
		return parseWhole(v, time.Millisecond)
	}},
}

const (
	isEmpty    = "is empty"
	isZero     = "is zero"
	isNegative = "is negative"
	isFar      = "is more than 100 years away"
	isNoForm   = "is not in the form expected"
)

// timeoutForm tells a duration that is too long for time.ParseDuration from what is none.
var timeoutForm = regexp.MustCompile(`^([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$`)

func parseTimeout(v string) (time.Duration, string) {
	switch {
	case v == "":
		return 0, isEmpty
	case v[0] == '-':
		return 0, isNegative
	case v[0] == '+', len(v) > 40:
		return 0, isNoForm
	}
	d, err := time.ParseDuration(v) // refuses what overflows
	switch {
	case err != nil && timeoutForm.MatchString(v):
		return 0, isFar
	case err != nil:
		return 0, isNoForm
	case d == 0:
		return 0, isZero
	case d > century:
		return 0, isFar
	}
	return d, ""
}

func parseDeadline(v string) (time.Duration, string) {
	var t time.Time
	if v == "" {
		return 0, isEmpty
	}
	if err := t.UnmarshalText([]byte(v)); err != nil { // stricter than time.Parse
		return 0, isNoForm
	}
	wall, _ := readClocks()
	left := t.Sub(wall)
	if left > century {
		return 0, isFar
	}
	return left, ""
}

func parseGRPC(v string) (time.Duration, string) {
	if v == "" {
		return 0, isEmpty
	}
	if v[0] == '-' {
		return 0, isNegative
	}
	digits := len(v) - 1
	var unit time.Duration
	switch v[digits] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	}
	if unit == 0 || digits < 1 || digits > 8 {
		return 0, isNoForm
	}
	d, wrong := parseWhole(v[:digits], unit)
	if wrong == isFar {
		return century, "" // 99999999H is the protocol's way to say for ever
	}
	return d, wrong
}

// parseWhole reads digits only, and bounds them before it multiplies.
func parseWhole(v string, unit time.Duration) (time.Duration, string) {
	if v == "" {
		return 0, isEmpty
	}
	n, err := strconv.ParseUint(v, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, isFar
	case err != nil && v[0] == '-':
		return 0, isNegative
	case err != nil:
		return 0, isNoForm
	case n == 0:
		return 0, isZero
	case n > uint64(century/unit):
		return 0, isFar
	}
	return time.Duration(n) * unit, ""
}

// formatGRPC writes ms in the finest unit that takes at most 8 digits, rounded down.
func formatGRPC(ms int64) string {
	const most = 99_999_999
	n, unit := ms, "m"
	for _, coarser := range [...]struct {
		ms   int64
		unit string
	}{{1000, "S"}, {60_000, "M"}, {3_600_000, "H"}} {
		if n <= most {
			break
		}
		n, unit = ms/coarser.ms, coarser.unit
	}
	return strconv.FormatInt(n, 10) + unit
}

func (n header) key(lower bool) string {
	if lower {
		return n.lower
	}
	return n.canonical
}

func has(h map[string][]string, n header) bool { return len(h[n.canonical])+len(h[n.lower]) > 0 }

func speaksGRPC(h map[string][]string) bool {
	isGRPC := func(value string) bool { return strings.HasPrefix(value, "application/grpc") }
	return slices.ContainsFunc(h[contentType.canonical], isGRPC) || slices.ContainsFunc(h[contentType.lower], isGRPC)
}

// isLower reports whether h has a key in lower case, as all of a metadata.MD are and none of an http.Header.
func isLower(h map[string][]string) bool {
	for key := range h {
		if key != "" && 'a' <= key[0] && key[0] <= 'z' {
			return true
		}
	}
	return false
}

// ago writes how long ago something was, as exactly as people want to know.
func ago(d time.Duration) string {
	for _, in := range [...]struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*in.unit {
			return fmt.Sprintf("%d %s", d/in.unit, in.name)
		}
	}
	return short(d).String()
}

// excerpt quotes a value of foreign origin, at a length fit for an error.
func excerpt(v string) string {
	const most = 64
	if len(v) > most {
		return strconv.Quote(v[:most]) + "..."
	}
	return strconv.Quote(v)
}
