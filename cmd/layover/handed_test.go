package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// listenFile returns a listening socket as a file, and its address.
func listenFile(t *testing.T) (*os.File, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Cleanup(func() { file.Close() })
	return file, l.Addr().String()
}

func TestR71_NoRequestIsLostBetweenTwoRoutersOfAHandedDownSocket(t *testing.T) {
	folder := t.TempDir()
	file, addr := listenFile(t)
	config := "listen: " + addr + "\n" + byName + "actors:\n" + testActor("a", 0, "")
	p := servingOn(t, file, folder, config)
	if p.front != addr {
		t.Fatalf("it listens on %s, want the socket's %s", p.front, addr)
	}
	first := p.served("a.test")
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for !stop.Load() {
				if a := p.get("a.test"); a.status != 200 {
					t.Errorf("a request to the socket got %+v (%v), want 200", a, a.err)
					return
				}
			}
		})
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	late := p.begin("a.test") // when nobody takes connections
	next := servingOn(t, file, folder, config)
	if a := <-late; a.status != 200 || a.pid == first.pid {
		t.Errorf("a request from between the two got %+v, want 200 from another process than %d", a, first.pid)
	}
	stop.Store(true)
	load.Wait()
	next.signal(syscall.SIGTERM)
	next.exit()
}

func TestAHandedDownSocketThatNobodyNamesIsSaid(t *testing.T) {
	socket, addr := listenFile(t)
	noSocket, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer noSocket.Close()
	config := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(config, []byte("listen: 127.0.0.1:0\nadmin: \"off\"\nactors: {a: {command: [sleep]}}\n"+byName), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, file := range map[string]*os.File{
		"a socket for " + addr + " was handed down (LISTEN_FDS), and neither listen nor admin is that address": socket,
		"descriptor 3, which LISTEN_FDS announces, is no listening socket":                                     noSocket,
	} {
		cmd := layover("serve", config)
		handDown(cmd, file)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, it says %s; want %s", err, out, want)
		}
	}
}

func TestSocketsAreForTheProcessThatLISTEN_PIDNames(t *testing.T) {
	env := func(pid int, fds string) func(string) string {
		return func(name string) string {
			return map[string]string{"LISTEN_PID": fmt.Sprint(pid), "LISTEN_FDS": fds}[name]
		}
	}
	if s, err := handedDown(env(8, "1"), 7); len(s) != 0 || err != nil {
		t.Errorf("those of another process: %v, %v, want none", s, err)
	}
	for _, fds := range []string{"", "x", "-1", "65", "99999999999999999999"} {
		if _, err := handedDown(env(7, fds), 7); err == nil || !strings.Contains(err.Error(), "LISTEN_FDS") {
			t.Errorf("LISTEN_FDS=%s: %v, want an error that names it", fds, err)
		}
	}
}

func TestSameAddr(t *testing.T) {
	for _, c := range []struct {
		handed, setting string
		want            bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"[::]:80", ":80", true},
		{"0.0.0.0:80", ":80", true},
		{"[::]:80", "127.0.0.1:80", false},
		{"[::1]:80", "[::1]:80", true},
	} {
		a, err := net.ResolveTCPAddr("tcp", c.handed)
		if err != nil {
			t.Fatal(err)
		}
		b, err := net.ResolveTCPAddr("tcp", c.setting)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameAddr(a, b); got != c.want {
			t.Errorf("sameAddr(%s, %s) = %t", c.handed, c.setting, got)
		}
	}
}
