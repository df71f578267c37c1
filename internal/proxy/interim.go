package proxy

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// takesInterim reports whether the client can be sent 102 Processing: HTTP/1.0
// has no such answers, and clients of gRPC and WebSocket are known to take any
// answer before the one they wait for as that one.
func (x *exchange) takesInterim() bool {
	h := x.in.Header
	_, upgrade := h["Upgrade"]
	return x.in.ProtoAtLeast(1, 1) && !upgrade && !strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}

// interimTimeout bounds the writing of an interim answer: a client that does not
// read would hold its request, and a spot, beyond the end of the wait.
const interimTimeout = time.Second

// processing sends 102 Processing, every route.Interim until stop, so that what
// is between the client and us sees that the connection lives.
func (x *exchange) processing() (stop func()) {
	var (
		mu    sync.Mutex // held while writing: the answer waits for it
		over  bool
		timer *time.Timer
	)
	w, rc, interval := x.w, http.NewResponseController(x.w), x.route.Interim
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(interval, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			rc.SetWriteDeadline(time.Now().Add(interimTimeout))
			w.WriteHeader(http.StatusProcessing)
			rc.SetWriteDeadline(time.Time{})
			timer.Reset(interval)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}
