package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// sockets are listening ones that the process which started this one had
// opened, as systemd does for a .socket unit. They outlive a router, so that
// between one and the next no connection is refused.
type sockets []net.Listener

// mostHandedDown is more than anybody listens on.
const mostHandedDown = 64

// firstHandedDown is the first descriptor after the standard ones.
const firstHandedDown = 3

// handedDown takes the sockets that the environment says are for this process:
// LISTEN_FDS of them, if LISTEN_PID is its number.
func handedDown(getenv func(string) string, pid int) (sockets, error) {
	if getenv("LISTEN_PID") != strconv.Itoa(pid) {
		return nil, nil
	}
	count := getenv("LISTEN_FDS")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > mostHandedDown {
		return nil, fmt.Errorf("LISTEN_FDS %q is not a number from 0 to %d; correct what starts this program", count, mostHandedDown)
	}
	var all sockets
	for fd := firstHandedDown; fd < firstHandedDown+n; fd++ {
		file := os.NewFile(uintptr(fd), "handed down")
		l, err := net.FileListener(file) // a copy
		file.Close()
		if err != nil {
			all.close()
			return nil, fmt.Errorf("descriptor %d, which LISTEN_FDS announces, is no listening socket: %w", fd, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// listen returns the socket for addr that was handed down, or else a new one.
func (s *sockets) listen(setting, addr string) (net.Listener, error) {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	for i, l := range *s {
		if got, ok := l.Addr().(*net.TCPAddr); ok && sameAddr(got, want) {
			*s = append((*s)[:i], (*s)[i+1:]...)
			return l, nil
		}
	}
	return listen(setting, addr)
}

func sameAddr(a, b *net.TCPAddr) bool {
	everywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return a.Port == b.Port && a.Zone == b.Zone && (a.IP.Equal(b.IP) || everywhere(a.IP) && everywhere(b.IP))
}

// unused reports a socket that no setting names: whoever connects to it would
// wait for ever.
func (s sockets) unused() error {
	if len(s) == 0 {
		return nil
	}
	return fmt.Errorf("a socket for %s was handed down (LISTEN_FDS), and neither listen nor admin is that address; make them the same", s[0].Addr())
}

func (s sockets) close() {
	for _, l := range s {
		l.Close()
	}
}
