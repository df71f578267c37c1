package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestB10HeadersThatSayHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the wall clock stands still
		now := time.Now()
		for _, c := range []struct {
			name, value string
			want        time.Duration
		}{
			{"Operation-Timeout", "2500ms", 2500 * time.Millisecond},
			{"Operation-Timeout", "10s", 10 * time.Second},
			{"Operation-Timeout", " 1.5s\t", 1500 * time.Millisecond},
			{"Operation-Timeout", "1m30s", 90 * time.Second},
			{"Operation-Timeout", "876000h", century},
			{"Operation-Deadline", now.Add(time.Minute).UTC().Format(time.RFC3339Nano), time.Minute},
			{"Operation-Deadline", now.Add(time.Minute).In(time.FixedZone("", 7200)).Format(time.RFC3339), time.Minute},
			{"Grpc-Timeout", "1H", time.Hour},
			{"Grpc-Timeout", "2M", 2 * time.Minute},
			{"Grpc-Timeout", "3S", 3 * time.Second},
			{"Grpc-Timeout", "4m", 4 * time.Millisecond},
			{"Grpc-Timeout", "5u", 5 * time.Microsecond},
			{"Grpc-Timeout", "00000006n", 6},
			{"Grpc-Timeout", "99999999H", century}, // A57
			{"Grpc-Timeout", "99999999S", 99999999 * time.Second},
			{"X-Envoy-Upstream-Rq-Timeout-Ms", "15000", 15 * time.Second},
			{"X-Envoy-Upstream-Rq-Timeout-Ms", "3153600000000", century},
		} {
			for _, key := range []string{c.name, strings.ToLower(c.name)} {
				d, ok, err := ReadHeaders(map[string][]string{key: {c.value}})
				if d != c.want || !ok || err != nil {
					t.Errorf("ReadHeaders(%s: %s) = %v, %v, %v, want %v", key, c.value, d, ok, err, c.want)
				}
			}
		}
	})
}

// A41, A57: a bad header is refused, never taken for none.
func TestB10MalformedHeadersAreRefused(t *testing.T) {
	bad := map[string][]string{
		"Operation-Timeout": {
			"", " ", "0", "0s", "-1s", "+1s", "-0s", "10", "1e3s", "s", "10 s", "10s,5s", "10sx", "NaN", "Inf", "٣s",
			"876001h", "9223372037s", "9223372036854775808ns", strings.Repeat("9", 39) + "s", strings.Repeat("1h", 1000), "10s\x00",
		},
		"Operation-Deadline": {
			"", "0", "1700000000", "tomorrow", "2030-01-31", "2030-01-31T12:00:00", "2030-01-31 12:00:00Z", "2030-02-31T12:00:00Z",
			"Mon, 02 Jan 2006 15:04:05 GMT", "2030-01-31T12:00:00Z,2030-01-31T12:00:00Z", "9999-12-31T23:59:59Z",
			"99999-01-01T00:00:00Z", "2030-01-31T12:00:00Zjunk",
		},
		"Grpc-Timeout": {
			"", "S", "0S", "00000000n", "-1S", "+1S", "1", "1s", "1.5S", "100000000n", "1 S", "1S ,", "1_0S", "99999999999999999999S",
		},
		"X-Envoy-Upstream-Rq-Timeout-Ms": {
			"", "0", "-1", "+1", "1.5", "1e9", "15s", "9223372036854775808", strings.Repeat("9", 40), "3153600000001", "1,2", "0x10",
		},
	}
	good := map[string]string{
		"Operation-Timeout": "1s", "Operation-Deadline": "", "Grpc-Timeout": "1S", "X-Envoy-Upstream-Rq-Timeout-Ms": "1",
	}
	for name, values := range bad {
		for _, value := range values {
			for _, h := range []map[string][]string{
				{name: {value}},
				{strings.ToLower(name): {value}},
				{name: {good[name], value}},
				{name: {value}, "Operation-Timeout": {value, "1s"}, "operation-deadline": {"1999-01-01T00:00:00Z"}},
			} {
				d, ok, err := ReadHeaders(h)
				if !errors.Is(err, ErrMalformed) || errors.Is(err, ErrPast) || ok || d != 0 {
					t.Errorf("ReadHeaders(%q) = %v, %v, %v, want ErrMalformed", h, d, ok, err)
				}
			}
			_, _, err := ReadHeaders(map[string][]string{name: {value}})
			if text := err.Error(); !strings.Contains(text, name) || !strings.Contains(text, "; send ") || len(text) > 400 {
				t.Errorf("the error for %s %q is %q", name, value, text)
			}
		}
	}
}

func TestB10WhatIsTooFarAwayIsSaidAlikeOfEachHeader(t *testing.T) {
	for name, value := range map[string]string{
		"Operation-Timeout": "9999999999h", "Operation-Deadline": "9999-12-31T23:59:59Z", "X-Envoy-Upstream-Rq-Timeout-Ms": "99999999999999999999",
	} {
		_, _, err := ReadHeaders(map[string][]string{name: {value}})
		if err == nil || !strings.Contains(err.Error(), isFar) {
			t.Errorf("ReadHeaders(%s: %s) = %v, want that it %s", name, value, err, isFar)
		}
	}
}

func TestAgoIsAsExactAsPeopleWantToKnow(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234567 * time.Nanosecond: "1.235ms", 119 * time.Second: "1m59s", 2 * time.Minute: "2 minutes",
		2*time.Hour - 1: "119 minutes", 47*time.Hour + 59*time.Minute: "47 hours", 876000 * time.Hour: "36500 days",
	} {
		if got := ago(d); got != want {
			t.Errorf("ago(%v) = %q, want %q", d, got, want)
		}
	}
}

// A56: the sender's clock may be the one that is wrong.
func TestB10ADeadlineThatHasPassedIsSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, ago := range []time.Duration{0, time.Nanosecond, time.Hour, century} {
			h := map[string][]string{
				"Operation-Deadline": {now.Add(-ago).UTC().Format(time.RFC3339Nano)},
				"Operation-Timeout":  {"10s"},
			}
			d, ok, err := ReadHeaders(h)
			if !errors.Is(err, ErrPast) || errors.Is(err, ErrMalformed) || ok || d != 0 {
				t.Fatalf("ReadHeaders of a deadline %v ago = %v, %v, %v, want ErrPast", ago, d, ok, err)
			}
			for _, part := range []string{"Operation-Deadline", h["Operation-Deadline"][0], "clock", "send Operation-Timeout"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		}
	})
}

func TestB10TheShortestOfSeveralCounts(t *testing.T) {
	h := map[string][]string{
		"Operation-Timeout":              {"20s", "15s"},
		"operation-timeout":              {"12s"},
		"grpc-timeout":                   {"11S"},
		"X-Envoy-Upstream-Rq-Timeout-Ms": {"10000"},
		"Operation-Deadline":             {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
	}
	if d, ok, err := ReadHeaders(h); d != 10*time.Second || !ok || err != nil {
		t.Errorf("ReadHeaders = %v, %v, %v, want 10s", d, ok, err)
	}
}

// A58
func TestB10AbsentMeansNoCallerDeadline(t *testing.T) {
	for _, h := range []map[string][]string{nil, {}, {"Operation-Timeout": nil}, {"Accept": {"10s"}}} {
		if d, ok, err := ReadHeaders(h); d != 0 || ok || err != nil {
			t.Errorf("ReadHeaders(%v) = %v, %v, %v, want nothing", h, d, ok, err)
		}
	}
}

func TestB11HeadersSayWhatRemainsAtEachAttempt(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), 10*time.Second)
	defer cancel()
	out := http.Header{}
	for _, c := range []struct {
		pass time.Duration
		want string
	}{
		{0, "10000ms"},
		{time.Nanosecond, "9999ms"}, // rounded down
		{4*time.Second - 1, "6000ms"},
		{6*time.Second - time.Millisecond, "1ms"},
	} {
		h.pass(c.pass)
		if err := WriteHeaders(ctx, out); err != nil || out.Get("Operation-Timeout") != c.want || len(out) != 1 {
			t.Errorf("WriteHeaders = %v, %v, want %s alone", out, err, c.want)
		}
	}
	for _, left := range []string{"less than a millisecond", "nothing", "less than nothing"} {
		h.pass(time.Millisecond - 1)
		before := maps.Clone(out)
		err := WriteHeaders(ctx, out)
		if !errors.Is(err, context.DeadlineExceeded) || !maps.EqualFunc(before, out, slices.Equal) {
			t.Errorf("with %s left WriteHeaders = %v, %v, want an error and no change", left, out, err)
		}
	}
}

func TestB11WritesTheFormsThatTheCallerUsed(t *testing.T) {
	h := takeHands(t)
	ctx, cancel := For(t.Context(), 10*time.Second)
	defer cancel()
	h.pass(2500 * time.Millisecond)
	for _, c := range []struct {
		name     string
		in, want map[string][]string
	}{
		{"none", map[string][]string{}, map[string][]string{"Operation-Timeout": {"7500ms"}}},
		{
			"the absolute one",
			map[string][]string{"Operation-Deadline": {"2030-01-01T00:00:00Z"}, "Accept": {"*/*"}},
			map[string][]string{"Operation-Timeout": {"7500ms"}, "Accept": {"*/*"}},
		},
		{
			"all, several times",
			map[string][]string{"Operation-Timeout": {"1h", "2h"}, "operation-timeout": {"3h"}, "Grpc-Timeout": {"1H"}, "X-Envoy-Upstream-Rq-Timeout-Ms": {"0"}},
			map[string][]string{"operation-timeout": {"7500ms"}, "grpc-timeout": {"7500m"}, "x-envoy-upstream-rq-timeout-ms": {"7500"}},
		},
		{
			"a gRPC call without a deadline",
			map[string][]string{"Content-Type": {"application/grpc+proto"}},
			map[string][]string{"Content-Type": {"application/grpc+proto"}, "Operation-Timeout": {"7500ms"}, "Grpc-Timeout": {"7500m"}},
		},
		{
			"metadata",
			map[string][]string{"content-type": {"application/grpc"}, "operation-deadline": {"2030-01-01T00:00:00Z"}},
			map[string][]string{"content-type": {"application/grpc"}, "operation-timeout": {"7500ms"}, "grpc-timeout": {"7500m"}},
		},
	} {
		if err := WriteHeaders(ctx, c.in); err != nil || !maps.EqualFunc(c.in, c.want, slices.Equal) {
			t.Errorf("%s: WriteHeaders = %v, %v\nwant %v", c.name, c.in, err, c.want)
		}
	}
}

func TestB11GRPCTimeoutHasAtMostEightDigits(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{time.Millisecond, "1m"},
		{99_999_999 * time.Millisecond, "99999999m"},
		{100_000_000 * time.Millisecond, "100000S"},
		{100_000_999 * time.Millisecond, "100000S"},
		{99_999_999*time.Second + 999*time.Millisecond, "99999999S"},
		{100_000_000 * time.Second, "1666666M"},
		{century, "52560000M"},
	} {
		got := formatGRPC(c.d.Milliseconds())
		back, wrong := parseGRPC(got)
		if got != c.want || wrong != "" || back > c.d {
			t.Errorf("formatGRPC(%v) = %s, read as %v, want %s", c.d, got, back, c.want)
		}
	}
}

func TestB11WithoutABudgetNothingIsWritten(t *testing.T) {
	h := map[string][]string{"Operation-Timeout": {"10s"}}
	if err := WriteHeaders(context.Background(), h); err != nil || len(h) != 1 || h["Operation-Timeout"][0] != "10s" {
		t.Errorf("WriteHeaders = %v, %v, want no change", h, err)
	}
}

func TestB11AnAttemptsEarlierDeadlineIsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := For(t.Context(), 10*time.Second)
		defer cancel()
		attempt, cancelAttempt := context.WithTimeout(ctx, 2*time.Second)
		defer cancelAttempt()
		h := http.Header{}
		if err := WriteHeaders(attempt, h); err != nil || h.Get("Operation-Timeout") != "2000ms" {
			t.Errorf("WriteHeaders = %v, %v, want 2000ms", h, err)
		}
		cancelAttempt()
		if err := WriteHeaders(attempt, h); err != context.Canceled {
			t.Errorf("WriteHeaders of a cancelled attempt = %v, want Canceled", err)
		}
	})
}

func FuzzReadHeaders(f *testing.F) {
	for _, v := range []string{"", "0", "-1", "1.5", "1e9", "9223372036854775808", "10s", "2500ms", "1S", "99999999H", "15000", "1s,2s",
		"2030-01-31T12:00:00Z", "1999-01-31T12:00:00.5+02:00", "9999-12-31T23:59:59Z", strings.Repeat("9", 40), "1h1h1h", "\x00", "µs", "1µs"} {
		f.Add(v, v, v, v)
	}
	f.Fuzz(func(t *testing.T, timeout, deadline, grpc, envoy string) {
		h := map[string][]string{}
		for key, v := range map[string]string{
			"Operation-Timeout": timeout, "operation-deadline": deadline, "grpc-timeout": grpc, "X-Envoy-Upstream-Rq-Timeout-Ms": envoy,
		} {
			if v != "-" {
				h[key] = []string{v}
			}
			checkRead(t, map[string][]string{key: {v}})
		}
		checkRead(t, h)
	})
}

// checkRead holds for every header, and for what is written from what was read.
func checkRead(t *testing.T, h map[string][]string) {
	d, ok, err := ReadHeaders(h)
	switch {
	case err != nil && (ok || d != 0 || errors.Is(err, ErrMalformed) == errors.Is(err, ErrPast) || len(err.Error()) > 1000):
		t.Fatalf("ReadHeaders(%q) = %v, %v, %v", h, d, ok, err)
	case err == nil && ok != (d > 0), d > century:
		t.Fatalf("ReadHeaders(%q) = %v, %v", h, d, ok)
	case err != nil || !ok:
		return
	}
	ctx, cancel := For(context.Background(), d)
	defer cancel()
	if err := WriteHeaders(ctx, h); err != nil {
		if d > time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("WriteHeaders with %v left: %v", d, err)
		}
		return
	}
	for key, values := range h {
		again, ok, err := ReadHeaders(map[string][]string{key: values})
		if err != nil || !ok || again > d {
			t.Fatalf("%v was written as %s: %q, read as %v, %v, %v", d, key, values, again, ok, err)
		}
	}
}

func TestB11TheRoundTripNeverGainsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for d := time.Millisecond; d < century && d > 0; d = d*7/3 + 1 {
			ctx, cancel := For(t.Context(), d)
			h := map[string][]string{"Content-Type": {"application/grpc"}, "X-Envoy-Upstream-Rq-Timeout-Ms": {"1"}}
			if err := WriteHeaders(ctx, h); err != nil {
				t.Fatalf("WriteHeaders with %v left: %v", d, err)
			}
			back, ok, err := ReadHeaders(h)
			if err != nil || !ok || back > d || d-back > d/10_000+time.Millisecond {
				t.Errorf("%v became %v, %v, %v (%v)", d, back, ok, err, fmt.Sprint(h))
			}
			cancel()
		}
	})
}
