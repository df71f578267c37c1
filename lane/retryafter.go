package lane

import (
	"net/http"
	"strings"
	"time"
)

// RetryAfter is how long from now a host wants to be left alone, by the header of its answer: greater than zero and at most a
// century. Times of day are compared with the host's own clock if it sent a Date, else with now's wall clock, and then rounded up to
// the second that they are given in. Of several values the longest counts. ok is false if there is none that can be obeyed:
// a malformed one, zero, a negative one, a time that has passed.
func RetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	for _, value := range h.Values("Retry-After") {
		value = strings.Trim(value, " \t")
		one, valid := parseSeconds(value)
		if !valid {
			one, valid = parseDate(value, h.Get("Date"), now)
		}
		if valid {
			d = max(d, one)
		}
	}
	return d, d > 0
}

// parseSeconds reads digits, and perhaps a fraction, which is rounded up to the millisecond. It saturates.
func parseSeconds(v string) (d time.Duration, ok bool) {
	whole, fraction, point := strings.Cut(v, ".")
	if whole == "" || !digits(whole) || point && !digits(fraction) {
		return 0, false
	}
	for _, digit := range []byte(whole) {
		if d >= century/10 {
			return century, true
		}
		d = 10*d + time.Duration(digit-'0')*time.Second
	}
	for i, unit := 0, 100*time.Millisecond; i < len(fraction); i, unit = i+1, unit/10 {
		if unit < time.Millisecond {
			if strings.Trim(fraction[i:], "0") != "" {
				d += time.Millisecond
			}
			break
		}
		d += time.Duration(fraction[i]-'0') * unit
	}
	return min(d, century), true
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// parseDate reads the three forms of an HTTP date.
func parseDate(v, hostNow string, now time.Time) (d time.Duration, ok bool) {
	at, ok := httpTime(v)
	if !ok {
		return 0, false
	}
	if clock, ok := httpTime(hostNow); ok {
		return min(at.Sub(clock), century), true
	}
	d = min(at.Sub(now), century)
	if part := d % time.Second; part > 0 {
		d += time.Second - part
	}
	return d, true
}

// httpTime is http.ParseTime for what is said to be in GMT: of another zone it would take the name and forget the difference.
func httpTime(v string) (time.Time, bool) {
	t, err := http.ParseTime(v)
	if err != nil || strings.Contains(v, ",") && !strings.HasSuffix(v, " GMT") {
		return time.Time{}, false
	}
	return t, true
}
