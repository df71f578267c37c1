package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What a service manager is told, as in sd_notify(3).
const (
	stateReady    = "READY=1"
	stateStopping = "STOPPING=1"
	stateAlive    = "WATCHDOG=1"
)

// stateReloading is told with the monotonic time, by which the manager tells a
// reload that it asked for from an earlier one.
func stateReloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}

// notifier returns what tells the service manager of a state: nothing if there
// is none. A manager that does not listen is logged, and holds up nobody.
func notifier(getenv func(string) string, log *slog.Logger) func(state string) {
	address := getenv("NOTIFY_SOCKET")
	if address == "" {
		return func(string) {}
	}
	return func(state string) {
		if err := notify(address, state); err != nil {
			log.Warn("the service manager cannot be told", "state", state, "err", err)
		}
	}
}

func notify(address, state string) error {
	conn, err := net.Dial("unixgram", address) // with @ it is a name without a file
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// watchdog returns how often the service manager wants to hear that process pid
// is alive, 0 for never.
func watchdog(getenv func(string) string, pid int) time.Duration {
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if of := getenv("WATCHDOG_PID"); err != nil || usec <= 0 || of != "" && of != strconv.Itoa(pid) {
		return 0
	}
	return time.Duration(min(usec, int64(time.Hour/time.Microsecond))) * time.Microsecond
}

// stayAlive calls alive twice in every, as long as check returns. It ends with ctx.
func stayAlive(ctx context.Context, every time.Duration, check, alive func()) {
	ticker := time.NewTicker(every / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			check()
			alive()
		}
	}
}

// notifying begins to tell the service manager how s is; stop ends that.
func (s *server) notifying() (stop func()) {
	s.tell = notifier(os.Getenv, s.log)
	ctx, cancel := context.WithCancel(context.Background())
	if every := watchdog(os.Getenv, os.Getpid()); every > 0 {
		// Who looks at the router takes its locks, so this stops when they are stuck.
		look := func() { s.router.Snapshot() }
		go stayAlive(ctx, every, look, func() { s.tell(stateAlive) }) // ends with ctx; nobody waits, as it may be stuck
	}
	s.tell(stateReady)
	return cancel
}
