package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"layover/internal/envoy"
	"layover/internal/extproc"
)

// It takes as long as one question to Envoy may.
func TestAStopAsksAgainWhenEnvoyIsTooBusyToAnswer(t *testing.T) {
	t.Parallel()
	asked := 0
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasPrefix(req.URL.Path, "/stats") {
			return
		}
		switch asked++; asked {
		case 1:
			<-req.Context().Done()
		case 2:
			fmt.Fprint(w, "http.http.downstream_rq_active: 1\n")
		default:
			fmt.Fprint(w, "http.http.downstream_rq_active: 0\n")
		}
	}))
	s := &server{
		plan: envoy.Plan{Admin: admin.Listener.Addr().String()}, log: slog.New(slog.DiscardHandler),
		front: extproc.New(nil, nil, extproc.Options{}),
	}
	err := s.drain(t.Context())
	admin.Close()
	if err != nil || asked != 3 {
		t.Errorf("drain = %v after %d questions, want nil after 3", err, asked)
	}
}

func TestAStopWaitsForEnvoyNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "http.http.downstream_rq_active: 1\n")
	}))
	defer admin.Close()
	s := &server{
		plan: envoy.Plan{Admin: admin.Listener.Addr().String()}, log: slog.New(slog.DiscardHandler),
		front: extproc.New(nil, nil, extproc.Options{}),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.drain(ctx) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain = %v, want the end of its time", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on")
	}
}
