//go:build unix && !race

package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"layover/internal/router"
)

// TestWarmPath compares requests to an awake actor with a bare ReverseProxy
// that has the same Transport and the same server settings: pairs of runs one after the other, and the
// median of their ratios. What is compared is the processor time of this
// process, client and actor included, which other work on the machine disturbs
// less than the clock's; on a machine that is busy with the requests alone the
// two say the same. The goal is 0.95; the bound is for regressions that even a
// busy machine shows.
func TestWarmPath(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	const pairs, requests, bound = 21, 400, 0.7
	for _, c := range []struct {
		what    string
		clients int
		body    int
		version int
	}{
		{"GET, 1 client", 1, 0, 1},
		{"GET, 8 clients", 8, 0, 1},
		{"POST of 1 KiB, 8 clients", 8, 1 << 10, 1},
		{"GET over HTTP/2, 8 clients", 8, 0, 2},
	} {
		w := newWarm(t, c.version)
		arms := [2]string{w.ours, w.bare}
		var cpu, wall [2]time.Duration
		var cpuRatios, wallRatios []float64
		for i := range pairs + 1 {
			var took, used [2]time.Duration
			for k := range arms {
				arm := (i + k) % 2 // each goes first in half of the pairs
				before, begin := processorTime(t), time.Now()
				w.run(t, arms[arm], c.clients, requests, c.body)
				took[arm], used[arm] = time.Since(begin), processorTime(t)-before
			}
			if i == 0 { // warms up
				continue
			}
			for arm := range arms {
				cpu[arm] += used[arm]
				wall[arm] += took[arm]
			}
			cpuRatios = append(cpuRatios, used[1].Seconds()/used[0].Seconds())
			wallRatios = append(wallRatios, took[1].Seconds()/took[0].Seconds())
		}
		slices.Sort(cpuRatios)
		slices.Sort(wallRatios)
		median := cpuRatios[pairs/2]
		t.Logf("%-27s %.3f of a bare ReverseProxy by processor time (quartiles %.3f-%.3f of %d pairs; %v against %v a request), %.3f by the clock",
			c.what, median, cpuRatios[pairs/4], cpuRatios[pairs*3/4], pairs,
			cpu[0]/(pairs*requests), cpu[1]/(pairs*requests), wallRatios[pairs/2])
		if median < bound {
			t.Errorf("%s: ratio %.3f, want at least %.2f", c.what, median, bound)
		}
	}
}

func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// warm is an awake actor behind a Proxy and behind a bare ReverseProxy.
type warm struct {
	client     *http.Client
	ours, bare string
}

func newWarm(t testing.TB, version int) *warm {
	f := newFixture(t, setup{silent: true})
	actor := f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	})
	target, _ := url.Parse(actor.URL)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 120 * time.Second, Handler: &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(target)
			pr.Out.Host = pr.In.Host
			pr.SetXForwarded()
		},
		Transport:  newTransport(new(net.Dialer).DialContext, router.ProtocolH1),
		BufferPool: &buffers,
	}}
	l := listen(t)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return &warm{client: f.client(version), ours: f.base, bare: "http://" + l.Addr().String()}
}

func (w *warm) run(t testing.TB, base string, clients, requests, body int) {
	payload := make([]byte, body)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range requests / clients {
				method := "GET"
				if body > 0 {
					method = "POST"
				}
				req, _ := http.NewRequest(method, base+"/", bytes.NewReader(payload))
				req.Host = "a.test"
				resp, err := w.client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

func BenchmarkWarm(b *testing.B) {
	w := newWarm(b, 1)
	for what, base := range map[string]string{"proxy": w.ours, "bare": w.bare} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.run(b, base, 1, 1, 0)
			}
		})
	}
}

// TestParkedRequestsAreSmall measures what a parked HTTP/1.1 request costs this
// process, which is 4 KiB of stack, 2 KiB more without a body (net/http then
// reads in another goroutine), 12 KiB of net/http's buffers and request, 2 KiB of
// ours, and about 1 KiB for the client, a bare socket in the same process.
func TestParkedRequestsAreSmall(t *testing.T) {
	const n, bound = 2000, 26 << 10
	if testing.Short() {
		t.Skip("opens thousands of sockets")
	}
	f := newFixture(t, setup{lot: n, budget: time.Minute})
	f.actorH1("a", false, hello)
	for _, body := range []string{"", "Content-Length: 1000\r\n"} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		before := footprint()
		conns := make([]net.Conn, n)
		for i := range conns {
			c, err := net.Dial("tcp", f.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conns[i] = c
		}
		for _, c := range conns {
			r := &raw{t: t, Conn: c}
			r.send("%s /some/path?with=query HTTP/1.1\nHost: a.test\nUser-Agent: test/1.0 (some; thing)\nAccept: */*\nAccept-Encoding: gzip, deflate, br\nAuthorization: Bearer 0123456789012345678901234567890123456789\n%s\n", method, body)
		}
		f.parked()
		until(t, "all are parked", func() bool { return f.lot.Snapshot().Active == n })
		each := (footprint() - before) / n
		t.Logf("%s: %d bytes for each of %d parked requests", method, each, n)
		if each > bound {
			t.Errorf("%s: a parked request takes %d bytes, want at most %d", method, each, bound)
		}
		for _, c := range conns {
			c.Close()
		}
		for range n {
			f.record()
		}
		until(t, "all spots are free", func() bool { return f.lot.Snapshot().Active == 0 })
	}
}

func footprint() int64 {
	var m runtime.MemStats
	for range 3 { // stacks shrink at a collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
