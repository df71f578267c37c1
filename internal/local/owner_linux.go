package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkOwner returns an error if a process that is not of pr listens at its
// port. A listener whose process cannot be found out is taken for pr's: the
// port was free before the start.
func (h *osHost) checkOwner(pr *process) error {
	sockets := listeners(pr.port)
	if len(sockets) == 0 || hasSocket(pr.pid(), sockets) {
		return nil
	}
	stranger := 0
	for _, pid := range everyProcess() {
		if !hasSocket(pid, sockets) {
			continue
		}
		if isOf(pid, pr.pid(), pr.marker+"\x00") {
			return nil
		}
		stranger = pid
	}
	if stranger == 0 {
		return nil
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", stranger))
	return fmt.Errorf("port %d is taken: process %d (%s) listens there, which is not the actor's", pr.port, stranger, bytes.TrimSpace(name))
}

// hasSocket reports whether pid has one of sockets open.
func hasSocket(pid int, sockets []string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return slices.ContainsFunc(names, func(name string) bool {
		link, err := os.Readlink(filepath.Join(dir, name))
		return err == nil && slices.Contains(sockets, link)
	})
}

// elsewhere returns the addresses at which processes of pr listen.
func (h *osHost) elsewhere(pr *process) (addrs []netip.AddrPort) {
	all := listening(0)
	for _, pid := range everyProcess() {
		if !isOf(pid, pr.pid(), pr.marker+"\x00") {
			continue
		}
		for _, l := range all {
			if !slices.Contains(addrs, l.addr) && hasSocket(pid, []string{l.socket}) {
				addrs = append(addrs, l.addr)
			}
		}
	}
	return addrs
}

// listeners returns the sockets that listen at port for 127.0.0.1, as links in
// /proc/PID/fd name them; none if the kernel does not tell.
func listeners(port int) (sockets []string) {
	for _, l := range listening(port) {
		if addr := l.addr.Addr().Unmap(); addr.IsUnspecified() || addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			sockets = append(sockets, l.socket)
		}
	}
	return sockets
}

// listener is a socket that takes connections.
type listener struct {
	socket string // as a link in /proc/PID/fd names it
	addr   netip.AddrPort
}

// listening returns the sockets that listen at port, or at any for 0. It asks
// the kernel for just these: to read /proc/net/tcp takes tens of milliseconds on
// a machine with many connections.
func listening(port int) (all []listener) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := unix.Sendto(fd, diagRequest(family, port), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			continue
		}
		all = append(all, diagAnswer(fd, port)...)
	}
	return all
}

// The layout of struct inet_diag_req_v2 and struct inet_diag_msg in
// linux/inet_diag.h, and of struct inet_diag_sockid in both.
const (
	tcpListen       = 10 // TCP_LISTEN in linux/tcp_states.h
	diagRequestSize = 8 + 48
	diagStates      = 4 // of the request, and there begins at 8:
	diagPort        = 8 // in network order
	diagMessageSize = 4 + 48 + 20
	diagFamily      = 0 // of the message
	diagMsgPort     = 4
	diagMsgAddr     = 8
	diagMsgInode    = 4 + 48 + 16
)

func diagRequest(family byte, port int) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequestSize)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := b[unix.SizeofNlMsghdr:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[diagStates:], 1<<tcpListen)
	binary.BigEndian.PutUint16(body[diagPort:], uint16(port))
	return b
}

// diagAnswer reads to the end of an answer.
func diagAnswer(fd, port int) (all []listener) {
	buf := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return all
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return all
		}
		for _, m := range messages {
			if m.Header.Type == unix.NLMSG_DONE || m.Header.Type == unix.NLMSG_ERROR {
				return all
			}
			if len(m.Data) < diagMessageSize {
				continue
			}
			if at := int(binary.BigEndian.Uint16(m.Data[diagMsgPort:])); port == 0 || at == port {
				inode := binary.NativeEndian.Uint32(m.Data[diagMsgInode:])
				all = append(all, listener{fmt.Sprintf("socket:[%d]", inode), netip.AddrPortFrom(diagAddr(m.Data), uint16(at))})
			}
		}
	}
}

// diagAddr is the address of a message's listener.
func diagAddr(message []byte) netip.Addr {
	raw := message[diagMsgAddr : diagMsgAddr+16]
	if message[diagFamily] == unix.AF_INET {
		raw = raw[:4]
	}
	addr, _ := netip.AddrFromSlice(raw) // of 4 or 16 bytes it cannot fail
	return addr
}
