package lane

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The rows are what hosts send; own means that it is to be ignored, for a back-off of the lane's own.
func TestA47_A48_A49_A51_RetryAfterIsReadInAllItsForms(t *testing.T) {
	const own = 0
	now := time.Date(1994, 11, 6, 8, 49, 30, 0, time.UTC)
	for _, test := range []struct {
		name   string
		values []string
		date   string
		now    time.Time // default: now
		want   time.Duration
	}{
		{"seconds", []string{"120"}, "", now, 2 * time.Minute},
		{"spaces around", []string{" 5\t"}, "", now, 5 * time.Second},
		{"leading zeros", []string{"0005"}, "", now, 5 * time.Second},
		{"a fraction", []string{"1.5"}, "", now, 1500 * time.Millisecond},
		{"a fraction below a millisecond is rounded up", []string{"0.0001"}, "", now, time.Millisecond},
		{"a fraction is rounded up", []string{"1.2345"}, "", now, 1235 * time.Millisecond},
		{"a long fraction", []string{"1." + strings.Repeat("0", 60) + "1"}, "", now, 1001 * time.Millisecond},
		{"a fraction of zeros", []string{"2.0000000"}, "", now, 2 * time.Second},
		{"the second that overflows a Duration", []string{"9223372037"}, "", now, century},
		{"2^63", []string{"9223372036854775808"}, "", now, century},
		{"40 digits", []string{strings.Repeat("9", 40)}, "", now, century},
		{"40 digits and a fraction", []string{strings.Repeat("9", 40) + ".5"}, "", now, century},
		{"just below a century", []string{"3153599999"}, "", now, century - time.Second},

		{"zero", []string{"0"}, "", now, own},
		{"zero with a fraction", []string{"0.000"}, "", now, own},
		{"negative", []string{"-1"}, "", now, own},
		{"a sign", []string{"+1"}, "", now, own},
		{"an exponent", []string{"1e9"}, "", now, own},
		{"hexadecimal", []string{"0x10"}, "", now, own},
		{"a unit", []string{"10s"}, "", now, own},
		{"trailing junk", []string{"10 seconds"}, "", now, own},
		{"only a point", []string{"."}, "", now, own},
		{"nothing before the point", []string{".5"}, "", now, own},
		{"two points", []string{"1.2.3"}, "", now, own},
		{"other digits", []string{"١٢"}, "", now, own},
		{"empty", []string{""}, "", now, own},
		{"none", nil, "", now, own},

		{"RFC 1123", []string{"Sun, 06 Nov 1994 08:49:37 GMT"}, "", now, 7 * time.Second},
		{"RFC 850", []string{"Sunday, 06-Nov-94 08:49:37 GMT"}, "", now, 7 * time.Second},
		{"ANSI C", []string{"Sun Nov  6 08:49:37 1994"}, "", now, 7 * time.Second},
		{"in another form than the Date", []string{"Sun Nov  6 08:49:37 1994"}, "Sunday, 06-Nov-94 08:48:37 GMT", now, time.Minute},
		{"by the host's clock, which is late", []string{"Sun, 06 Nov 1994 07:00:05 GMT"}, "Sun, 06 Nov 1994 07:00:00 GMT", now, 5 * time.Second},
		{"by the host's clock, which is ahead", []string{"Fri, 06 Nov 2026 07:00:05 GMT"}, "Fri, 06 Nov 2026 07:00:00 GMT", now, 5 * time.Second},
		{"a Date that is none", []string{"Sun, 06 Nov 1994 08:49:37 GMT"}, "today", now, 7 * time.Second},
		{"less than a second ahead", []string{"Sun, 06 Nov 1994 08:49:30 GMT"}, "", now.Add(-300 * time.Millisecond), time.Second},
		{"rounded up to the second", []string{"Sun, 06 Nov 1994 08:49:37 GMT"}, "", now.Add(300 * time.Millisecond), 7 * time.Second},
		{"now", []string{"Sun, 06 Nov 1994 08:49:30 GMT"}, "", now, own},
		{"past", []string{"Sun, 06 Nov 1994 08:49:00 GMT"}, "", now, own},
		{"just past", []string{"Sun, 06 Nov 1994 08:49:30 GMT"}, "", now.Add(300 * time.Millisecond), own},
		{"the end of days", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, "", now, century},
		{"of another zone", []string{"Sunday, 06-Nov-94 08:49:37 EST"}, "", now, own},
		{"a day that there is not", []string{"Thu, 31 Feb 1994 08:49:37 GMT"}, "", now, own},
		{"a date with junk", []string{"Sun, 06 Nov 1994 08:49:37 GMT or so"}, "", now, own},
		{"RFC 3339", []string{"1994-11-06T08:49:37Z"}, "", now, own},

		{"two: the longer one", []string{"5", "10"}, "", now, 10 * time.Second},
		{"two: the longer one first", []string{"10", "5"}, "", now, 10 * time.Second},
		{"two: the one that is valid", []string{"soon", "5"}, "", now, 5 * time.Second},
		{"two: the one that is not past", []string{"5", "Sun, 06 Nov 1994 08:49:00 GMT"}, "", now, 5 * time.Second},
		{"two in one", []string{"5, 10"}, "", now, own},
	} {
		h := http.Header{"Retry-After": test.values}
		if test.date != "" {
			h.Set("Date", test.date)
		}
		got, ok := RetryAfter(h, test.now)
		if got != test.want || ok != (test.want > 0) {
			t.Errorf("%s: RetryAfter(%q, Date %q) = %v, %v; want %v", test.name, test.values, test.date, got, ok, test.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "-1", "0", "1.5", "1e9", "9223372036854775808", "Sun, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", strings.Repeat("9", 40), "0.00000000000001"} {
		f.Add(seed, "")
		f.Add("5", seed)
		f.Add(seed, "Sun, 06 Nov 1994 08:49:00 GMT")
	}
	now := time.Date(1994, 11, 6, 8, 49, 30, 5e8, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if ok != (d > 0) || d > century || ok && d < time.Millisecond {
			t.Errorf("RetryAfter(%q, Date %q) = %v, %v; want a time from 1ms to a century, or none", value, date, d, ok)
		}
		// Never earlier than asked, by the other clock that could have been meant.
		if at, err := http.ParseTime(strings.Trim(value, " \t")); err == nil && ok && date == "" && d != century && d < at.Sub(now) {
			t.Errorf("RetryAfter(%q) = %v, which is before", value, d)
		}
		// Another value beside it can only make it longer.
		if both, ok := RetryAfter(http.Header{"Retry-After": {value, "7"}, "Date": {date}}, now); !ok || both < max(d, 7*time.Second) {
			t.Errorf("RetryAfter(%q and 7, Date %q) = %v, want at least %v", value, date, both, max(d, 7*time.Second))
		}
	})
}
