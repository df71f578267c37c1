package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// wakeUp measures what the router adds to a program's own start. Started by
// hand and through the router in turns, a program's start is the time from the
// command, or the request, to the answer, less the time from its first
// instruction to its listening. What the router adds is the difference of the
// quantiles: a busy machine delays both.
func wakeUp(r *report) error {
	levels := []struct {
		delay time.Duration
		times int
	}{{10 * time.Millisecond, 120}, {50 * time.Millisecond, 60}, {200 * time.Millisecond, 30}, {500 * time.Millisecond, 20}}
	var config strings.Builder
	config.WriteString("pools: {default: {workers: 300}}\ndefaults: {idle: 0s}\nactors:\n")
	for _, level := range levels {
		fmt.Fprintf(&config, "  a%d-*: {command: [{self}], env: {FIGURES_ACTOR: %v}}\n", level.delay.Milliseconds(), level.delay)
	}
	config.WriteString("routes: [{host: \"{actor}.test\", budget: 1m}]\n")
	s, err := startServer(config.String())
	if err != nil {
		return err
	}
	defer s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, level := range levels {
		var overhead, bare samples
		for i := range level.times {
			alone, err := bareStart(level.delay)
			if err != nil {
				return err
			}
			bare.add(alone)
			start := time.Now()
			host := fmt.Sprintf("a%d-%d.test", level.delay.Milliseconds(), i)
			answer, err := sendOver(ctx, "GET", "http://"+s.addr, host, nil, 0)
			took := time.Since(start)
			if err != nil {
				return err
			}
			own, err := ownTime(answer)
			if err != nil {
				return err
			}
			overhead.add(took - own)
		}
		for _, q := range []float64{0.5, 0.99} {
			began := bare.quantile(q)
			r.duration("wake-up of a program of %v: bare start, p%.0f of %d", began, 0, level.delay, 100*q, level.times)
			r.duration("wake-up of a program of %v: added by the router, p%.0f of %d", overhead.quantile(q)-began, 10*time.Millisecond, level.delay, 100*q, level.times)
		}
	}
	return nil
}

// ownTime reads from an actor's answer how long it took from its first
// instruction to its listening.
func ownTime(answer string) (time.Duration, error) {
	var began, listened, got int64
	if _, err := fmt.Sscan(answer, &began, &listened, &got); err != nil {
		return 0, fmt.Errorf("the actor answered %q", answer)
	}
	return time.Duration(listened - began), nil
}

// bareStart starts the actor by hand and returns what its start takes beside
// the time from its first instruction to its listening, with an answer at
// once over a new connection.
func bareStart(delay time.Duration) (time.Duration, error) {
	addr, err := freeAddr()
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PORT="+port, actorEnv+"="+delay.String())
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		if time.Since(start) > 10*time.Second {
			return 0, fmt.Errorf("%s does not listen", self)
		}
		time.Sleep(200 * time.Microsecond)
	}
	answer, err := sendOver(context.Background(), "GET", "http://"+addr, "bare", nil, 0)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	own, err := ownTime(answer)
	return took - own, err
}
