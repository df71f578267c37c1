package local

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func processAttributes(cred *userCredential) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if cred != nil {
		attr.Credential = &cred.ids
	}
	return attr
}

// closeFilesOnExec keeps what the router itself was given, such as sockets from
// a service manager, from its actors. What Go opens is kept from them anyway.
func closeFilesOnExec() {
	const first = 3
	if unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil { // since Linux 5.11
		return
	}
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}

// notifyName is an abstract socket: it needs no folder that another user can
// reach, and nothing of it is left behind.
func notifyName() (string, error) { return "@layover-" + rand.Text(), nil }

// backlog is how many connections wait at l to be taken.
func backlog(l *net.TCPListener) (n int, err error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return 0, err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int(info.Unacked) // of a listening socket: its backlog
		}
	})
	if ctlErr != nil {
		return 0, ctlErr
	}
	return n, err
}

func firstEphemeralPort() int {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
	n, _ := strconv.Atoi(first)
	return n
}

// stat is what /proc/PID/stat says of a process.
type stat struct {
	state      byte
	ppid, pgrp int
	started    string // in clock ticks since the boot
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 0 }

// statOf returns the zero stat for a process that is not there.
func statOf(pid int) (s stat) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s
	}
	// The name, in parentheses, may hold anything; the third field follows the last one.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return s
	}
	s.state = fields[0][0]
	s.ppid, _ = strconv.Atoi(fields[1])
	s.pgrp, _ = strconv.Atoi(fields[2])
	s.started = fields[19]
	return s
}

// identity tells a process from a later one of the same number: when it
// started and in which boot; empty if it is not there.
func identity(pid int) string {
	started := statOf(pid).started
	if started == "" {
		return ""
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return started + "@" + strings.TrimSpace(string(boot))
}

// marked reports whether pid has an environment entry that begins with marker.
func marked(pid int, marker string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && (bytes.HasPrefix(env, []byte(marker)) || bytes.Contains(env, []byte("\x00"+marker)))
}

// awaitExit returns how the main process ended. It leaves it for bury: as long
// as nobody has waited for it, its number is given to no other process, nor
// group.
func (pr *process) awaitExit() (how string) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pr.pid(), &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			return exitText(&info)
		}
		if err != unix.EINTR { // somebody else waited for it: os/exec knows as much as there is to know
			return pr.waitNow()
		}
	}
}

// bury waits for the main process, which has exited.
func (pr *process) bury() { pr.cmd.Wait() }

// exitText says what os/exec would of a child.
func exitText(info *unix.Siginfo) string {
	const (
		exited = 1 // CLD_EXITED
		dumped = 3 // CLD_DUMPED
	)
	// What the kernel tells of a child follows three numbers and is aligned like
	// a pointer: its pid, its user, and its status.
	const align = unsafe.Sizeof(uintptr(0))
	const child = (3*unsafe.Sizeof(int32(0)) + align - 1) / align * align
	status := *(*int32)(unsafe.Add(unsafe.Pointer(info), child+2*unsafe.Sizeof(int32(0))))
	if info.Code == exited {
		return "exit status " + strconv.Itoa(int(status))
	}
	text := "signal: " + syscall.Signal(status).String()
	if info.Code == dumped {
		text += " (core dumped)"
	}
	return text
}

func isOf(pid, pgid int, marker string) bool {
	s := statOf(pid)
	return !s.dead() && (pgid > 0 && s.pgrp == pgid || marked(pid, marker))
}

// left returns the processes that belong to pr, whose main process has exited. It
// looks among the router's descendants: what loses its parent becomes the
// router's child (see startReaper), so nothing gets out of there.
func (h *osHost) left(pr *process) (inGroup, outside []int) {
	all, ok := h.descendants(os.Getpid(), pr.pid())
	if !ok {
		all = everyProcess()
	}
	for _, pid := range all {
		s := statOf(pid)
		switch {
		case pid == pr.pid():
		case s.dead():
			if s.pgrp == pr.pid() && s.ppid == os.Getpid() {
				syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		case s.pgrp == pr.pid():
			inGroup = append(inGroup, pid)
		case marked(pid, pr.marker+"\x00") || s.ppid == os.Getpid() && !h.isProc(pid) && ending(pid):
			outside = append(outside, pid)
		}
	}
	return inGroup, outside
}

// descendants returns the processes below pid, but for those below other
// actors' main processes; false if this kernel does not tell.
func (h *osHost) descendants(pid, main int) (pids []int, ok bool) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, pid != os.Getpid() // it is gone
	}
	for _, task := range tasks {
		text, err := childrenOf(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil && pid == os.Getpid() && !taskGone(err) {
			return nil, false
		}
		for _, field := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(field)
			if child != main && h.isProc(child) {
				continue
			}
			below, _ := h.descendants(child, main)
			pids = append(append(pids, child), below...)
		}
	}
	return pids, true
}

// ending reports whether pid has begun to exit: it has no memory any more, so
// its environment cannot say whose it is, but it may still have files open.
func ending(pid int) bool {
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err != nil && !os.IsPermission(err)
}

// childrenOf reads a list of children. The kernel passes one over when the one
// before it goes away just then; but then that one is in this reading and not
// in the next. So two equal readings are complete.
func childrenOf(file string) ([]byte, error) {
	last, err := os.ReadFile(file)
	for err == nil {
		var text []byte
		if text, err = os.ReadFile(file); bytes.Equal(text, last) {
			break
		}
		last = text
	}
	return last, err
}

// taskGone reports whether err says that a thread ended, rather than that the
// kernel has no such file.
func taskGone(err error) bool {
	if os.IsNotExist(err) {
		_, err = os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		return err == nil
	}
	return true
}

func everyProcess() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends s to pid if it is of pr. The process is looked at only after it
// is held by a descriptor, so that the signal reaches no other one of the same
// number.
func (h *osHost) signal(pr *process, pid int, s syscall.Signal) {
	signalIf(pid, s, func() bool { return isOf(pid, pr.pid(), pr.marker+"\x00") })
}

func signalIf(pid int, s syscall.Signal, right func() bool) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer process.Release()
	if right() {
		process.Signal(s)
	}
}

// markedProcesses returns every process that has one of the markers.
func markedProcesses(markers []string) (pids []int) {
	if len(markers) == 0 {
		return nil
	}
	for _, pid := range everyProcess() {
		if slices.ContainsFunc(markers, func(m string) bool { return marked(pid, m) }) && !statOf(pid).dead() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// groupOf returns the living processes of a group.
func groupOf(pgid int) (pids []int) {
	for _, pid := range everyProcess() {
		if s := statOf(pid); s.pgrp == pgid && !s.dead() {
			pids = append(pids, pid)
		}
	}
	return pids
}
