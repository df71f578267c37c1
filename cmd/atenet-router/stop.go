package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"layover/internal/cli"
)

const (
	// lookEvery is how often a stop asks Envoy what it still has.
	lookEvery = 100 * time.Millisecond
	// adminTimeout bounds one question to Envoy.
	adminTimeout = 2 * time.Second
	// delivery bounds the wait for a stream that does not end, such as one that
	// watches our health.
	delivery = 500 * time.Millisecond
)

// stop ends the server: not ready; after the delay Envoy takes no more; what it
// has is served or ends by its budget. Something on again ends all waiting.
func (s *server) stop(again <-chan os.Signal) error {
	first := time.Now()
	ctx, hurry := context.WithCancelCause(context.Background())
	defer hurry(nil)
	go func() { // ends with ctx
		if got := cli.Another(ctx, first, again); got != nil {
			s.log.Warn("stopping at once", "signal", got.String())
			hurry(cli.ErrCutOff)
		}
	}()
	s.admin.SetReady(false)
	s.health.Shutdown()
	cli.Pause(ctx, s.config.drainDelay)
	draining, cancel := context.WithTimeout(ctx, s.plan.Drain())
	defer cancel()
	var own error
	var fronts sync.WaitGroup // or one would take requests until the other has none
	if s.own != nil {
		fronts.Go(func() { own = s.own.Shutdown(draining) })
	}
	err := s.drain(draining)
	fronts.Wait()
	err = cmp.Or(own, err)
	if cut := s.router.Wait(draining); cut != nil { // they may have outlived their callers
		s.log.Warn("resumes were cut off: their workers may be lost", "cause", cut)
	}
	s.deliver(ctx)
	s.close()
	switch {
	case errors.Is(context.Cause(ctx), cli.ErrCutOff):
		return cli.ErrCutOff
	case err != nil:
		s.log.Warn("requests were cut off", "cause", err)
	}
	s.log.Info("stopped")
	return nil
}

// drain returns when Envoy has no request any more, or, of an Envoy that cannot
// be asked, when none is held here.
func (s *server) drain(ctx context.Context) error {
	if s.plan.Admin == "" {
		return s.front.Wait(ctx)
	}
	if _, err := s.askEnvoy(ctx, http.MethodPost, "/drain_listeners?graceful&skip_exit"); err != nil {
		level := slog.LevelWarn
		if s.own != nil && s.front.Held() == 0 { // perhaps there is none
			level = slog.LevelDebug
		}
		s.log.Log(ctx, level, "Envoy could not be told to drain: it goes on to take requests", "err", err)
		return s.front.Wait(ctx)
	}
	s.log.Info("draining", "held", s.front.Held(), "at_most", s.plan.Drain())
	for {
		if err := s.front.Wait(ctx); err != nil {
			return err
		}
		active, err := s.active(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded): // it is busy
		case err != nil: // it has ended: so have its requests
			return s.front.Wait(ctx)
		case active == 0:
			return nil
		}
		cli.Pause(ctx, lookEvery)
	}
}

// deliver returns when what was answered is on its way to Envoy, or soon after.
func (s *server) deliver(ctx context.Context) {
	done := make(chan struct{})
	go func() { // ends when close ends the streams that are left
		s.grpcs[0].GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(delivery):
	case <-ctx.Done():
	}
}

// active returns how many requests and tunnels Envoy's clients have in it.
func (s *server) active(ctx context.Context) (int, error) {
	text, err := s.askEnvoy(ctx, http.MethodGet, `/stats?filter=^http\.https%3F\.downstream_rq_active$`)
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range strings.Lines(text) {
		_, value, _ := strings.Cut(line, ": ")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			return 0, fmt.Errorf("the Envoy's statistics have %q", line)
		}
		sum += n
	}
	return sum, nil
}

func (s *server) askEnvoy(ctx context.Context, method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.plan.Admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the Envoy's admin interface answers %s", resp.Status)
	}
	return string(text), err
}
