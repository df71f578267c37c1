//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// markerKey is the variable that an actor's processes carry in their
// environment, wherever they go: RUN/ACTOR/WAKE. A run is one plane.
const markerKey = "LAYOVER_ACTOR"

// osHost runs programs as processes of this machine.
type osHost struct {
	log    *slog.Logger
	run    string
	folder *folder
	reaper *reaper
	ports  ports

	// starts go to goroutines that stay on their threads: the kernel sends a
	// child its parent's death signal when the thread that forked it ends.
	starts chan func()

	mu    sync.Mutex
	procs map[int]*process // by pid of the main process, which os/exec waits for
}

func newHost(state string, log *slog.Logger) (host, error) {
	h := &osHost{log: log, run: rand.Text(), starts: make(chan func()), procs: make(map[int]*process)}
	closeFilesOnExec()
	var err error
	if h.folder, err = openFolder(state, h.run, log); err != nil {
		return nil, err
	}
	h.reaper = startReaper(h.isProc)
	go h.starter()
	return h, nil
}

// starter carries starts out until close.
func (h *osHost) starter() {
	runtime.LockOSThread()
	for start := range h.starts {
		start()
	}
}

// starterLimit is how long a start may take before the next ones get a starter
// of their own: one program on a file server that is away must not hold up the
// others. There are at most as many as there were lives at once, and one.
const starterLimit = time.Second

func (h *osHost) onStarter(start func()) {
	limit := time.NewTimer(starterLimit)
	defer limit.Stop()
	select {
	case h.starts <- start:
	case <-limit.C:
		go h.starter()
		h.starts <- start
	}
}

func (h *osHost) close() error {
	close(h.starts)
	h.reaper.stop()
	return h.folder.close()
}

// isProc reports whether os/exec waits for pid.
func (h *osHost) isProc(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.procs[pid] != nil
}

func (h *osHost) check(a Actor) error {
	_, err := credentials(a.User)
	return err
}

// process is a running actor: one main process, and what it started.
type process struct {
	h      *osHost
	job    job
	marker string
	cmd    *exec.Cmd
	port   int
	record string // file in the state folder

	signs signs                 // of readiness
	seen  atomic.Pointer[error] // what was last seen missing to it
	out   ring
	pipe  *os.File      // where out comes from
	read  chan struct{} // closed when out is complete

	done chan struct{} // closed when the main process has exited
	exit string        // how it ended; set before done closes
}

// start implements host.
func (h *osHost) start(j job) (program, error) {
	port, err := h.ports.take()
	if err != nil {
		return nil, err
	}
	pr := &process{
		h: h, job: j, port: port, marker: fmt.Sprintf("%s=%s/%s/%d", markerKey, h.run, j.Name, j.wake),
		read: make(chan struct{}), done: make(chan struct{}),
	}
	if err := pr.launch(); err != nil {
		pr.signs.close()
		h.ports.release(port)
		return nil, err
	}
	return pr, nil
}

func (pr *process) launch() error {
	h := pr.h
	cred, err := credentials(pr.job.User)
	if err != nil {
		return err
	}
	if dir := pr.job.Dir; dir != "" { // or the kernel's error would be about the program
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("no cwd: %w", err)
		}
	}
	if err := pr.signs.open(pr.job.Ready.Kind, pr.addr()); err != nil {
		return err
	}
	command := pr.withPort(pr.job.Command)
	if pr.signs.listener != nil { // only the program itself knows the pid that LISTEN_PID must have
		command = append([]string{"/bin/sh", "-c", `export LISTEN_PID=$$; exec "$@"`, "sh"}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = pr.job.Dir
	cmd.Env = pr.environ(cred)
	cmd.SysProcAttr = processAttributes(cred)
	cmd.ExtraFiles = pr.signs.files
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd.Stdout, cmd.Stderr = theirs, theirs
	pr.cmd = cmd

	started := make(chan error, 1)
	h.onStarter(func() { started <- cmd.Start() })
	if err := <-started; err != nil {
		ours.Close()
		return cannotRun(cmd, err)
	}
	h.mu.Lock()
	h.procs[pr.pid()] = pr
	h.mu.Unlock()
	pr.pipe = ours
	pr.signs.started()
	go pr.drain() // stop waits for it
	go pr.wait()  // and for it
	pr.record, err = h.folder.write(pr)
	if err != nil { // it runs, and the marker finds it as well
		h.log.Warn("cannot note a started actor", "actor", pr.job.Name, "err", err)
	}
	return nil
}

// cannotRun says in words for people why a program was not started.
func cannotRun(cmd *exec.Cmd, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok { // of fork and exec
		err = path.Err
	}
	if name, ok := errors.AsType[*exec.Error](err); ok { // of the search in $PATH
		err = name.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		path := cmd.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.Dir, path)
		}
		if _, there := os.Stat(path); there == nil {
			err = errors.New("the interpreter that its first line (#!) names, or its loader, does not exist")
		}
	}
	where := ""
	if cmd.Dir != "" {
		where = " in " + cmd.Dir
	}
	return fmt.Errorf("cannot run %s%s: %w", cmd.Args[0], where, err)
}

// drain keeps what the program prints, as fast as it comes: a program is never
// held up by its output.
func (pr *process) drain() {
	defer close(pr.read)
	defer pr.pipe.Close()
	io.Copy(&pr.out, pr.pipe) // the end, or outputGrace
	pr.out.finish()
}

// finishOutput waits until all output is kept, once nothing of the program is
// left that could write. A process that got away may still hold the pipe, so
// that there is no end to be seen.
func (pr *process) finishOutput() {
	pr.pipe.SetReadDeadline(time.Now().Add(outputGrace))
	<-pr.read
}

const outputGrace = 250 * time.Millisecond

func (pr *process) wait() {
	pr.exit = pr.awaitExit()
	close(pr.done)
}

// waitNow waits for the main process with os/exec, which gives its number free.
func (pr *process) waitNow() (how string) {
	if err := pr.cmd.Wait(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}

// environ is the router's environment, less what was meant for the router
// alone, and what the actor needs to know.
func (pr *process) environ(cred *userCredential) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "NOTIFY_SOCKET" || key == "PORT" || strings.HasPrefix(key, "LISTEN_") ||
			strings.HasPrefix(key, "WATCHDOG_") || strings.HasPrefix(key, "LAYOVER_")
	})
	if cred != nil {
		env = append(env, "HOME="+cred.home, "USER="+cred.name, "LOGNAME="+cred.name)
	}
	env = append(env, pr.withPort(pr.job.Env)...)
	env = append(env, pr.marker, "PORT="+strconv.Itoa(pr.port))
	return append(env, pr.signs.env...)
}

func (pr *process) withPort(texts []string) []string {
	return replaced(texts, strings.NewReplacer("{port}", strconv.Itoa(pr.port)))
}

func (pr *process) addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(pr.port))
}
func (pr *process) pid() int                             { return pr.cmd.Process.Pid }
func (pr *process) exited() <-chan struct{}              { return pr.done }
func (pr *process) how() string                          { <-pr.done; return pr.exit }
func (pr *process) output(n int) []string                { return pr.out.tail(n) }
func (pr *process) since(line uint64) ([]string, uint64) { return pr.out.since(line) }

// stop implements program. On Linux the main process is not waited for before
// nothing is left of it, so until then its number is its group's, and signals
// to the group reach no other one. Elsewhere the number is free from the exit
// on, and only a group that is still there is signalled.
func (pr *process) stop(patience context.Context) {
	h := pr.h
	signal := func(s syscall.Signal) {
		select {
		case <-pr.done:
		default:
			syscall.Kill(-pr.pid(), s)
		}
	}
	if patience.Err() == nil {
		signal(syscall.SIGTERM)
		select {
		case <-pr.done:
		case <-patience.Done():
		}
	}
	if patience.Err() != nil {
		signal(syscall.SIGKILL)
	}
	slow := time.AfterFunc(slowToDie, func() {
		if patience.Err() != nil {
			h.log.Error("an actor cannot be killed and keeps its worker", "actor", pr.job.Name, "pid", pr.pid())
		}
	})
	defer slow.Stop()
	<-pr.done
	pr.endRest(patience)
	pr.bury()

	pr.finishOutput()
	pr.signs.close()
	h.folder.remove(pr.record)
	h.mu.Lock()
	delete(h.procs, pr.pid())
	h.mu.Unlock()
	h.ports.release(pr.port)
}

// slowToDie is how long after KILL the operator is told: only the kernel can
// hold a process up for so long.
const slowToDie = 10 * time.Second

// endRest ends what the main process left behind, and returns when there is
// nothing. What is still in the group has been asked together with it, and many
// programs take a second TERM for haste.
func (pr *process) endRest(patience context.Context) {
	began := time.Now()
	asked := make(map[int]bool)
	for {
		inGroup, outside := pr.h.left(pr)
		if len(inGroup)+len(outside) == 0 {
			return
		}
		wait := patience
		if patience.Err() != nil {
			wait = context.Background()
			if len(inGroup) > 0 { // all at once: none can fork out of the way
				syscall.Kill(-pr.pid(), syscall.SIGKILL)
			}
			for _, pid := range outside {
				pr.h.signal(pr, pid, syscall.SIGKILL)
			}
		}
		for _, pid := range outside {
			if patience.Err() == nil && !asked[pid] {
				asked[pid] = true
				pr.h.signal(pr, pid, syscall.SIGTERM)
			}
		}
		pause(wait, time.Since(began))
	}
}

// pause waits for a 64th of the time that something has taken so far, at least
// 1 ms and at most 25 ms: the step of everything that can only be found out by
// looking.
func pause(ctx context.Context, elapsed time.Duration) {
	t := time.NewTimer(min(max(elapsed/64, time.Millisecond), 25*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// userCredential is who a program runs as.
type userCredential struct {
	name, home string
	ids        syscall.Credential
}

// credentials looks a user up by name or number; nil: the router's own.
func credentials(who string) (*userCredential, error) {
	if who == "" {
		return nil, nil
	}
	u, err := user.Lookup(who)
	if err != nil {
		byID, idErr := user.LookupId(who)
		if idErr != nil {
			return nil, fmt.Errorf("user %q: %w: use a user of this machine", who, err)
		}
		u = byID
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q has no numeric id: %w", who, err)
	}
	if int(uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("cannot run as user %q: the router runs as user %d: run the router as root, or leave user out", who, os.Geteuid())
	}
	c := &userCredential{name: u.Username, home: u.HomeDir, ids: syscall.Credential{Uid: uint32(uid)}}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q has no numeric group: %w", who, err)
	}
	c.ids.Gid = uint32(gid)
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", who, err)
	}
	for _, g := range groups {
		if id, err := strconv.ParseUint(g, 10, 32); err == nil {
			c.ids.Groups = append(c.ids.Groups, uint32(id))
		}
	}
	return c, nil
}
