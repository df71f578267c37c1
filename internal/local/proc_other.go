//go:build unix && !linux

package local

import (
	"crypto/rand"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func processAttributes(cred *userCredential) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if cred != nil {
		attr.Credential = &cred.ids
	}
	return attr
}

// closeFilesOnExec keeps the first files that the router itself was given from
// its actors. What Go opens is kept from them anyway.
func closeFilesOnExec() {
	for fd := 3; fd < 256; fd++ {
		syscall.CloseOnExec(fd)
	}
}

func notifyName() (string, error) {
	return filepath.Join(os.TempDir(), "layover-"+rand.Text()+".sock"), nil
}

// backlog is not known here: the socket counts as taken at once.
func backlog(*net.TCPListener) (int, error) { return 0, nil }

// firstEphemeralPort is not known here: the kernel chooses ports.
func firstEphemeralPort() int { return 0 }

// identity tells a process from a later one of the same number; empty if it is
// not there.
func identity(pid int) string {
	started, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(started))
}

// awaitExit waits for the main process.
func (pr *process) awaitExit() (how string) { return pr.waitNow() }

// bury has nothing to do here: the main process was waited for.
func (pr *process) bury() {}

// left returns the group of pr if it still has processes, as a negative number.
func (h *osHost) left(pr *process) (inGroup, outside []int) {
	if syscall.Kill(-pr.pid(), 0) != nil {
		return nil, nil
	}
	return []int{-pr.pid()}, nil
}

func (h *osHost) signal(_ *process, group int, s syscall.Signal) { syscall.Kill(group, s) }

// checkOwner cannot tell here: whoever listens is taken for the actor.
func (h *osHost) checkOwner(*process) error { return nil }

// elsewhere finds nothing here.
func (h *osHost) elsewhere(*process) []netip.AddrPort { return nil }

// leftovers returns the groups of records whose main process is still there,
// as negative numbers.
func leftovers(records []record, _ []string) (groups []int) {
	for _, r := range records {
		if r.Identity != "" && identity(r.PID) == r.Identity {
			groups = append(groups, -r.PID)
		}
	}
	return groups
}

func signalLeftover(group int, s syscall.Signal, _ []record, _ []string) { syscall.Kill(group, s) }

// reaper has nothing to do here: orphans become children of process 1.
type reaper struct{}

func startReaper(func(pid int) bool) *reaper { return &reaper{} }

func (r *reaper) stop() {}
