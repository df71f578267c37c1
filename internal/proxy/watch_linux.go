package proxy

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watch tells requests when their client's connection is closed from the other
// side. net/http finds out only while it reads, and it does not read while the
// request's body is unread or the byte of a pipelined request is in its hand.
//
// One epoll instance watches the connections, and one goroutine that instance;
// both begin with the first connection and end with close. A connection is
// known by a number that is never used again, and its descriptor is touched
// only through RawConn.Control, which fails once the connection is closed: a
// descriptor that was reused meanwhile is never meant.
type watch struct {
	log *slog.Logger

	mu      sync.Mutex
	epoll   *os.File          // nil before the first connection, and without epoll
	raw     syscall.RawConn   // of epoll
	begun   bool              // epoll was tried, or closed
	next    uint64            // the next number
	watched map[uint64]func() // by number; what to do when it is closed
	done    chan struct{}     // closed when the goroutine has ended
}

// add calls gone, once, from another goroutine and without blocking long, when
// the other side of c closes or resets. remove ends that; gone may still be
// running.
func (w *watch) add(c net.Conn, gone func()) (remove func()) {
	conn, ok := rawConn(c)
	if !ok {
		return func() {}
	}
	w.mu.Lock()
	w.beginLocked()
	if w.epoll == nil {
		w.mu.Unlock()
		return func() {}
	}
	w.next++
	number := w.next
	w.watched[number] = gone
	epoll := w.raw
	w.mu.Unlock()

	control(epoll, conn, unix.EPOLL_CTL_ADD, number)
	return func() {
		w.mu.Lock()
		delete(w.watched, number)
		w.mu.Unlock()
		control(epoll, conn, unix.EPOLL_CTL_DEL, number)
	}
}

// control changes what epoll watches. An error means that one of the two is
// closed: then there is nothing to watch.
func control(epoll, conn syscall.RawConn, op int, number uint64) {
	conn.Control(func(fd uintptr) {
		epoll.Control(func(epfd uintptr) {
			unix.EpollCtl(int(epfd), op, int(fd), &unix.EpollEvent{
				Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, // errors and hang-ups are always reported
				Fd:     int32(uint32(number)),
				Pad:    int32(uint32(number >> 32)),
			})
		})
	})
}

func rawConn(c net.Conn) (syscall.RawConn, bool) {
	if client, ok := c.(*clientConn); ok {
		c = client.Conn
	}
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := s.SyscallConn()
	return raw, err == nil
}

func (w *watch) beginLocked() {
	if w.begun {
		return
	}
	w.begun = true
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true) // os.NewFile then waits for it with the runtime's poller
	}
	if err != nil {
		w.log.Warn("cannot watch waiting clients", "err", err)
		return
	}
	w.epoll = os.NewFile(uintptr(fd), "epoll")
	w.raw, _ = w.epoll.SyscallConn() // fails on a nil file only
	w.watched = make(map[uint64]func())
	w.done = make(chan struct{})
	go w.run(w.raw)
}

func (w *watch) run(epoll syscall.RawConn) {
	defer close(w.done)
	var events [64]unix.EpollEvent
	for {
		n := 0
		err := epoll.Read(func(fd uintptr) (done bool) {
			for {
				var err error
				if n, err = unix.EpollWait(int(fd), events[:], 0); err != unix.EINTR {
					return n != 0
				}
			}
		})
		if err != nil || n < 0 { // closed
			return
		}
		for _, e := range events[:n] {
			w.gone(uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)))
		}
	}
}

func (w *watch) gone(number uint64) {
	w.mu.Lock()
	gone := w.watched[number]
	delete(w.watched, number)
	w.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// close ends the goroutine and waits for it. Connections that are added later
// are not watched.
func (w *watch) close() {
	w.mu.Lock()
	epoll := w.epoll
	w.epoll, w.begun = nil, true
	w.mu.Unlock()
	if epoll != nil {
		epoll.Close()
		<-w.done
	}
}
