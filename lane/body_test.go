package lane

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func TestL6_BodiesAreReadWholeUpToTheirLimit(t *testing.T) {
	const limit = 1 << 16
	for _, test := range []struct {
		name   string
		body   []byte
		coding string
		want   []byte
		err    error
	}{
		{"empty", nil, "", nil, nil},
		{"small", []byte("small"), "", []byte("small"), nil},
		{"exactly the limit", noise(limit), "", noise(limit), nil},
		{"one more", noise(limit + 1), "", nil, ErrTooLarge},
		{"packed", packed(t, []byte("jobs")), "gzip", []byte("jobs"), nil},
		{"packed, in capitals", packed(t, []byte("jobs")), "X-GZIP", []byte("jobs"), nil},
		{"packed, exactly the limit", packed(t, noise(limit)), "gzip", noise(limit), nil},
		{"packed, one more", packed(t, noise(limit+1)), "gzip", nil, ErrTooLarge},
		{"empty although packed", nil, "gzip", nil, nil},
		{"said to be itself", []byte("jobs"), "identity", []byte("jobs"), nil},
	} {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if got := r.Header.Get("Accept-Encoding"); got != "gzip" {
				t.Errorf("%s: Accept-Encoding is %q, want gzip", test.name, got)
			}
			return answer(r, 200, string(test.body), "Content-Encoding", test.coding, "Content-Length", "7"), nil
		})
		got, err := newLane(t, Options{Client: client, MaxBody: limit}).Do(operation(t, time.Minute),
			Request{URL: page, Header: http.Header{"Accept-Encoding": {"br"}}})
		switch {
		case test.err != nil:
			if failure(t, err, Failed); !errors.Is(err, test.err) || sent.times() != 1 {
				t.Errorf("%s: Do = %v after %d requests, want %v after one", test.name, err, sent.times(), test.err)
			}
		case err != nil || !bytes.Equal(got.Body, test.want):
			t.Errorf("%s: Do = %v, want %d bytes", test.name, err, len(test.want))
		case strings.HasSuffix(strings.ToLower(test.coding), "gzip") && len(test.body) > 0 && (got.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Length") != ""):
			t.Errorf("%s: the header still speaks of the packed body: %v", test.name, got.Header)
		}
	}
}

func TestL6_WhatUnpacksToAHundredTimesItsSizeIsRefused(t *testing.T) {
	for size, want := range map[int]bool{ratioFrom: true, 2 * ratioFrom: false} {
		body := packed(t, make([]byte, size))
		client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
			return answer(r, 200, string(body), "Content-Encoding", "gzip"), nil
		})
		got, err := get(operation(t, time.Minute), newLane(t, Options{Client: client}))
		if (err == nil) != want || err != nil && !errors.Is(err, ErrTooLarge) || want && len(got.Body) != size {
			t.Errorf("%d bytes packed into %d: Do = %v", size, len(body), err)
		}
	}
}

func TestL6_AnErrorAnswerThatIsTooLargeIsCut(t *testing.T) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 404, "not here"), nil })
	got, err := get(operation(t, time.Minute), newLane(t, Options{Client: client, MaxBody: 3}))
	if e := failure(t, err, Failed); e.Status() != 404 || string(got.Body) != "not" {
		t.Errorf("Do = %+v, want the 404 and three bytes", e)
	}
}

func TestL6_WhatCannotBeUnpackedIsAnError(t *testing.T) {
	whole := packed(t, []byte("jobs"))
	for name, test := range map[string]struct {
		body   []byte
		coding string
		sent   int
	}{
		"nobody asked for it": {[]byte("x"), "br", 1},
		"twice":               {whole, "gzip, gzip", 1},
		"not what it says":    {[]byte("plain text, after all"), "gzip", 2},
		"cut":                 {whole[:len(whole)-6], "gzip", 2}, // may be whole the next time
	} {
		bubble(t, func(t *testing.T) {
			client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
				return answer(r, 200, string(test.body), "Content-Encoding", test.coding), nil
			})
			_, err := get(operation(t, time.Minute), newLane(t, Options{Client: client, Attempts: 2}))
			if failure(t, err, Failed); sent.times() != test.sent {
				t.Errorf("%s: %d requests, %v; want %d", name, sent.times(), err, test.sent)
			}
		})
	}
}

func TestAHeadHasNoBodyToUnpack(t *testing.T) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
		a := answer(r, 200, "", "Content-Encoding", "br", "Content-Length", "1000000")
		a.ContentLength = 1000000
		return a, nil
	})
	got, err := newLane(t, Options{Client: client}).Do(operation(t, time.Minute), Request{Method: "HEAD", URL: page})
	if err != nil || len(got.Body) != 0 || got.Header.Get("Content-Length") != "1000000" {
		t.Errorf("Do = %+v, %v; want the header as it came", got, err)
	}
}

func TestL6_RedirectsAreFollowedWithinTheLane(t *testing.T) {
	const www = "http://www.boards.example/"
	for _, test := range []struct {
		name    string
		hops    []string // Locations, then 200
		visited int
		to      string // where it ended
		err     bool
	}{
		{"on the host", []string{"/a", "b"}, 3, "http://boards.example/b", false},
		{"three", []string{"/a", "/b", "/c"}, 4, "http://boards.example/c", false},
		{"four", []string{"/a", "/b", "/c", "/d"}, 4, "http://boards.example/c", true},
		{"to https", []string{"https://boards.example/"}, 2, "https://boards.example/", false},
		{"and back", []string{"https://boards.example/", "http://boards.example/"}, 2, "https://boards.example/", true},
		{"to another host of the lane", []string{www}, 2, www, false},
		{"to another host", []string{"http://evil.test/"}, 1, page, true},
		{"to another port", []string{"http://boards.example:81/"}, 1, page, true},
		{"to another scheme", []string{"ftp://boards.example/"}, 1, page, true},
	} {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n < len(test.hops) {
				return answer(r, 302, "elsewhere", "Location", test.hops[n]), nil
			}
			return answer(r, 200, "here"), nil
		})
		l := newLane(t, Options{Client: client, Hosts: []string{"www.boards.example"}})
		got, err := get(operation(t, time.Minute), l)
		if sent.times() != test.visited || got == nil || got.URL.String() != test.to || errors.Is(err, ErrRedirect) != test.err || (err != nil) != test.err {
			t.Errorf("%s: Do = %+v, %v after %d requests; want %d, ending at %s", test.name, got, err, sent.times(), test.visited, test.to)
			continue
		}
		if test.err && (got.Status != 302 || string(got.Body) != "elsewhere" || got.Header.Get("Location") == "") {
			t.Errorf("%s: the answer is %+v, want the redirect", test.name, got)
		}
		if got.Attempts != 1 || l.Stats().Attempts != 1 {
			t.Errorf("%s: %d attempts, want 1: redirects are none", test.name, got.Attempts)
		}
	}
}

func TestL6_NoSecretGoesToAnotherHost(t *testing.T) {
	var seen []http.Header
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Header)
		if n < 2 {
			return answer(r, 302, "", "Location", []string{"/on", "http://sub.boards.example/"}[n]), nil
		}
		return answer(r, 200, ""), nil
	})
	l := newLane(t, Options{Client: client, Hosts: []string{"sub.boards.example"}}) // net/http trusts subdomains
	h := http.Header{"Authorization": {"hush"}, "Cookie": {"hush"}, "X-Api-Key": {"hush"}, "Accept": {"application/json"}}
	if _, err := l.Do(operation(t, time.Minute), Request{URL: "http://boards.example/jobs?key=hush", Header: h}); err != nil {
		t.Fatal(err)
	}
	if seen[1].Get("Authorization") != "hush" || seen[1].Get("X-Api-Key") != "hush" {
		t.Errorf("on the same host the header is %v, want it whole", seen[1])
	}
	if len(seen[2]) != 2 || seen[2].Get("Accept") == "" || seen[2].Get("Accept-Encoding") == "" {
		t.Errorf("the other host got %v, want what it accepts alone", seen[2])
	}
}

func TestARedirectIsPaidAtThePace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, sent := scripted(func(n int, r *http.Request) (*http.Response, error) {
			if n == 0 {
				return answer(r, 302, "", "Location", "/on"), nil
			}
			return answer(r, 200, ""), nil
		})
		l := newLane(t, Options{Client: client, Rate: 1})
		begin := time.Now()
		for range 2 {
			if _, err := get(operation(t, time.Minute), l); err != nil {
				t.Fatal(err)
			}
		}
		if got := sent.after(begin, 2); got != 2*time.Second {
			t.Errorf("the third request was sent after %v, want 2s", got)
		}
	})
}

func BenchmarkDo(b *testing.B) {
	client, _ := scripted(func(n int, r *http.Request) (*http.Response, error) { return answer(r, 200, "jobs"), nil })
	l, err := New(host, unpaced(Options{Client: client}))
	if err != nil {
		b.Fatal(err)
	}
	ctx := operation(b, time.Hour)
	b.Run("lane", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := get(ctx, l); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("http.Client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request, err := http.NewRequestWithContext(ctx, "GET", page, nil)
			if err != nil {
				b.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})
}
