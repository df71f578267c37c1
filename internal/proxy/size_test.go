package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestG9_R44_ALargeUploadPassesAColdStartInConstantMemory sends 256 MiB,
// sixteen times what the heap may grow by, or LAYOVER_UPLOAD_GB GiB.
func TestG9_R44_ALargeUploadPassesAColdStartInConstantMemory(t *testing.T) {
	size := int64(256 << 20)
	if testing.Short() {
		t.Skip("moves a lot")
	}
	if gb := os.Getenv("LAYOVER_UPLOAD_GB"); gb != "" {
		n, err := strconv.ParseInt(gb, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		size = n << 30
	}
	f := newFixture(t, setup{budget: 10 * time.Minute})
	f.actorH1("a", false, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	var read atomic.Int64
	body := &counting{Reader: io.LimitReader(zeros{}, size), n: &read}
	req := f.request("POST", "a", "/", body)
	req.ContentLength = size
	client := f.client(1)
	done := make(chan result, 1)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			done <- result{err: err}
			return
		}
		got, err := io.ReadAll(resp.Body)
		done <- result{resp, string(got), err}
	}()
	f.parked()
	// What the client could send is in the kernel's buffers, not in ours.
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f.wake("a")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var most uint64
	for {
		select {
		case r := <-done:
			if r.err != nil || r.body != fmt.Sprint(size, nil) {
				t.Errorf("answer %q, %v, want %d bytes counted", r.body, r.err, size)
			}
			t.Logf("%d MiB sent; heap %d KiB before, at most %d KiB during", size>>20, before.HeapInuse>>10, most>>10)
			if most > before.HeapInuse+16<<20 {
				t.Errorf("the heap grew from %d to %d KiB", before.HeapInuse>>10, most>>10)
			}
			return
		case <-tick.C:
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		}
	}
}

type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func TestG9_NothingOfTheBodyIsReadWhileParked(t *testing.T) {
	f := newFixture(t, setup{})
	f.actorH1("a", false, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	var read atomic.Int64
	c := f.dial()
	c.send("POST / HTTP/1.1\nHost: a.test\nContent-Length: %d\n\n", 64<<20)
	f.parked()
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(struct{ io.Writer }{c}, &counting{Reader: io.LimitReader(zeros{}, 64<<20), n: &read})
		wrote <- err
	}()
	var last int64 = -1
	until(t, "the client cannot send any more", func() bool {
		<-time.After(50 * time.Millisecond)
		now := read.Load()
		defer func() { last = now }()
		return now == last
	})
	if last >= 32<<20 {
		t.Errorf("the client could send %d bytes to nobody", last)
	}
	f.wake("a")
	if err := receive(t, wrote, "the body is sent"); err != nil {
		t.Error(err)
	}
	if resp := c.response("POST"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

// TestParkedUploadsDoNotBlockOthersOfTheirConnection: the connection's window
// covers every stream's.
func TestParkedUploadsDoNotBlockOthersOfTheirConnection(t *testing.T) {
	f := newFixture(t, setup{})
	count := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}
	f.actorH1("a", false, count)
	f.actorH1("b", true, count)
	client := f.client(2)
	const size = 1 << 20
	upload := func(actor string) <-chan result {
		return do(client, f.request("POST", actor, "/", bytes.NewReader(make([]byte, size))))
	}
	var parked []<-chan result
	for range 40 {
		parked = append(parked, upload("a"))
	}
	f.parked()
	until(t, "all are parked", func() bool { return f.lot.Snapshot().Active == 40 })
	for range 3 {
		if r := get(t, upload("b")); r.body != fmt.Sprint(size) {
			t.Errorf("an upload beside the parked ones: %q, want %d", r.body, size)
		}
	}
	f.wake("a")
	for _, done := range parked {
		if r := get(t, done); r.body != fmt.Sprint(size) {
			t.Errorf("a parked upload: %q, want %d", r.body, size)
		}
	}
}

func TestALargeDownloadIsStreamed(t *testing.T) {
	f := newFixture(t, setup{})
	const size = 16 << 20
	f.actorH1("a", true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		io.Copy(w, io.LimitReader(zeros{}, size))
	})
	for _, version := range []int{1, 2} {
		resp, err := f.client(version).Do(f.request("GET", "a", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if n != size || err != nil {
			t.Errorf("HTTP/%d: %d bytes, %v, want %d", version, n, err, size)
		}
	}
}
