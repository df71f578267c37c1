package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// manager is what a service manager hears.
type manager struct {
	socket *net.UnixConn
	name   string
	all    *logs // one line per state
}

func newManager(t *testing.T) *manager {
	t.Helper()
	folder, err := os.MkdirTemp("", "sd") // short: the names of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{name: filepath.Join(folder, "notify"), all: new(logs)}
	if m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.name}); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() { // ends with the socket
		defer close(heard)
		buf := make([]byte, 4096)
		for {
			n, err := m.socket.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintln(m.all, strings.ReplaceAll(string(buf[:n]), "\n", " "))
		}
	}()
	t.Cleanup(func() {
		m.socket.Close()
		<-heard
		os.RemoveAll(folder)
	})
	return m
}

// heard returns the states without times and signs of life.
func (m *manager) heard() string {
	var states []string
	for line := range strings.Lines(m.all.String()) {
		if state := strings.Fields(line)[0]; state != stateAlive {
			states = append(states, state)
		}
	}
	return strings.Join(states, " ")
}

func TestTheServiceManagerHearsOfReadyReloadAndStop(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.name)
	t.Setenv("WATCHDOG_USEC", "20000")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	until(t, "READY", func() bool { return m.heard() == "READY=1" })
	until(t, "a sign of life", func() bool { return strings.Contains(m.all.String(), stateAlive) })
	p.served("a.test")
	p.signal(syscall.SIGHUP)
	const reloaded = "READY=1 RELOADING=1 READY=1"
	until(t, "the reload", func() bool { return m.heard() == reloaded })
	if !strings.Contains(m.all.String(), "RELOADING=1 MONOTONIC_USEC=") {
		t.Errorf("the reload has no time: %s", m.all)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	until(t, "STOPPING", func() bool { return m.heard() == reloaded+" STOPPING=1" })
}

func TestAManagerThatIsGoneHoldsUpNobody(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	p.served("a.test")
	until(t, "the log to say that the manager is gone", func() bool { return p.logged("the service manager cannot be told", "READY=1") })
}

func TestTheWatchdogHearsTwicePerIntervalWhileTheRouterAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var signs atomic.Int32
		stuck := make(chan struct{})
		var isStuck atomic.Bool
		check := func() {
			if isStuck.Load() {
				<-stuck
			}
		}
		go stayAlive(ctx, 10*time.Second, check, func() { signs.Add(1) })
		time.Sleep(20*time.Second + time.Millisecond)
		if n := signs.Load(); n != 4 {
			t.Errorf("%d signs of life in 20 s, want 4", n)
		}
		isStuck.Store(true)
		time.Sleep(time.Minute)
		if n := signs.Load(); n != 4 {
			t.Errorf("%d signs of life of a router that is stuck, want none", n-4)
		}
		close(stuck)
		cancel()
	})
}

func TestWatchdogReadsTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"x", "", 0}, {"-1", "", 0}, {"0", "", 0},
		{"30000000", "", 30 * time.Second}, {"30000000", "7", 30 * time.Second}, {"30000000", "8", 0},
		{"9223372036854775807", "", time.Hour},
	} {
		env := map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}
		if got := watchdog(func(name string) string { return env[name] }, 7); got != c.want {
			t.Errorf("watchdog(%q, %q) = %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}
