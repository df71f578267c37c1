//go:build linux

package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"layover/budget"
	"layover/internal/router"
	"layover/parking"
)

// patience bounds what should happen by itself on a busy machine.
const patience = 20 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); pause(context.Background(), 0) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func there(pid int) bool { return !statOf(pid).dead() }

func routeTo(p *Plane, name string) (*router.Ride, error) {
	ctx, cancel := budget.For(context.Background(), patience)
	defer cancel()
	return router.New(p, parking.NewLot(100), router.Options{}).Route(ctx, router.Ask{Actor: name})
}

func mustRoute(t *testing.T, p *Plane, name string) *router.Ride {
	t.Helper()
	ride, err := routeTo(p, name)
	if err != nil {
		e, _ := errors.AsType[*router.Error](err)
		t.Fatalf("%v; output: %q", err, e.Output)
	}
	return ride
}

func mustFail(t *testing.T, p *Plane, name string) *router.Error {
	t.Helper()
	_, err := routeTo(p, name)
	e, ok := errors.AsType[*router.Error](err)
	if !ok || e.Reason != router.StartFailed {
		t.Fatalf("Route = %v, want start_failed", err)
	}
	return e
}

func mustSleep(t *testing.T, p *Plane, name string) {
	t.Helper()
	if err := p.Sleep(context.Background(), name); err != nil {
		t.Fatal(err)
	}
}

func waitState(t *testing.T, p *Plane, name string, want router.State) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %s", name, want), func() bool { return snapshotOf(t, p, name).State == want })
}

// printed returns the number that an actor has printed after word.
func printed(t *testing.T, p *Plane, name, word string) (pid int) {
	t.Helper()
	eventually(t, name+" prints "+word, func() bool {
		for _, line := range snapshotOf(t, p, name).Output {
			if n, ok := strings.CutPrefix(line, word+" "); ok {
				pid, _ = strconv.Atoi(n)
			}
		}
		return pid > 0
	})
	return pid
}

func TestKillingAnActorInMidRequestEndsTheRequestAndTheNextWakesIt(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "server"))
	ride := mustRoute(t, p, "a")
	resp, err := http.Get("http://" + ride.Target.Addr + "/hang")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	pid := snapshotOf(t, p, "a").PID
	syscall.Kill(pid, syscall.SIGKILL)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the answer of a killed actor ended as if it were whole")
	}
	waitState(t, p, "a", router.Asleep)
	ride.Done()
	if got := snapshotOf(t, p, "a").LastError; got != "the actor exited: signal: killed" {
		t.Errorf("LastError = %q", got)
	}
	again := mustRoute(t, p, "a")
	defer again.Done()
	if body, err := get(again.Target, "/"); err != nil || body == strconv.Itoa(pid) || again.Target == ride.Target {
		t.Errorf("after the kill: process %s at %v (%v), before %d at %v", body, again.Target, err, pid, ride.Target)
	}
}

func TestR58_AProgramThatExitsAtOnceFailsTheStartWithItsLastWords(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "quitter"))
	e := mustFail(t, p, "a")
	if want := "the actor exited before it was ready"; e.Detail != want {
		t.Errorf("Detail = %q, want %q", e.Detail, want)
	}
	const forOperator = "the actor did not start: exited before it was ready (exit status 3); its last line: boom"
	if !slices.Equal(e.Output, []string{"the last words", "boom"}) {
		t.Errorf("Output = %q", e.Output)
	}
	waitState(t, p, "a", router.Failed)
	if s := snapshotOf(t, p, "a"); s.RetryAt.IsZero() || s.LastError != forOperator || len(s.Output) != 2 {
		t.Errorf("snapshot = %+v", s)
	}
}

func TestAProgramThatDoesNotExistFailsTheStart(t *testing.T) {
	gone := acting("gone", "")
	gone.Command = []string{"/no/such/program"}
	nowhere := acting("nowhere", "server")
	nowhere.Dir = "/no/such/folder"
	p := mustPlane(t, 1, gone, nowhere)
	for actor, why := range map[string]string{"gone": "cannot run /no/such/program: no such file", "nowhere": "/no/such/folder: no such file"} {
		e := mustFail(t, p, actor)
		if !strings.Contains(e.Err.Error(), why) {
			t.Errorf("Err = %v, want %q in it", e.Err, why)
		}
		if e.Detail != "the actor did not start" { // no client is told a path of this machine
			t.Errorf("Detail = %q", e.Detail)
		}
	}
}

func TestP7_AProgramThatNeverBecomesReadyFailsAtItsStartTimeoutAndIsEnded(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, kind := range []string{ReadyConnect, ReadyHTTP, ReadyNotify, ReadySocket} {
		t.Run(kind, func(t *testing.T) {
			a := acting("a", "mute")
			a.StartTimeout, a.Ready.Kind = 400*time.Millisecond, kind
			p := mustPlane(t, 1, a)
			began := time.Now()
			e := mustFail(t, p, "a")
			if took := time.Since(began); took < a.StartTimeout || took > a.StartTimeout+5*time.Second {
				t.Errorf("failed after %v, want %v", took, a.StartTimeout)
			}
			if e.Detail != "the actor was not ready after 400ms" || !strings.HasPrefix(e.Err.Error(), "not ready after 400ms: ") {
				t.Errorf("Detail = %q, Err = %v, want in the latter also what was last seen", e.Detail, e.Err)
			}
			waitState(t, p, "a", router.Failed)
			if left := markedProcesses([]string{markerKey + "=" + p.host.(*osHost).run + "/"}); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestR59_AProgramThatIgnoresTermIsKilledAfterItsGrace(t *testing.T) {
	a := acting("a", "deaf server")
	a.Grace = 300 * time.Millisecond
	p := mustPlane(t, 1, a)
	mustRoute(t, p, "a").Done()
	pid := snapshotOf(t, p, "a").PID
	began := time.Now()
	mustSleep(t, p, "a")
	if took := time.Since(began); took < a.Grace {
		t.Errorf("gone after %v, before its grace of %v", took, a.Grace)
	}
	if there(pid) {
		t.Errorf("process %d is still there", pid)
	}
}

func TestAProgramIsAskedToEndAndItsWordsAreKept(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "polite server"))
	mustRoute(t, p, "a").Done()
	mustSleep(t, p, "a")
	if got := snapshotOf(t, p, "a").Output; !slices.Equal(got, []string{"goodbye"}) {
		t.Errorf("Output = %q", got)
	}
}

func TestAShellAroundAProgramDoesNotCutItsGraceShort(t *testing.T) {
	a := acting("a", "server")
	a.Command = []string{"/bin/sh", "-c", `(trap 'sleep 0.2; echo "cleaned up"; exit' TERM; "$0" & wait) & wait`, os.Args[0]}
	p := mustPlane(t, 1, a)
	mustRoute(t, p, "a").Done()
	began := time.Now()
	mustSleep(t, p, "a")
	if got := snapshotOf(t, p, "a").Output; !slices.Contains(got, "cleaned up") {
		t.Errorf("Output = %q: the shell's child was not given time", got)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it was gone after %v: what it does on TERM was disturbed", took)
	}
}

func TestR57_APortThatAnotherProcessTookFailsTheStartAndNamesIt(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "mute"))
	failed := make(chan error, 1)
	go func() {
		_, err := routeTo(p, "a")
		failed <- err
	}()
	var addr string
	eventually(t, "a has a port", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := p.actors["a"].life; l != nil && l.program != nil {
			addr = l.program.addr()
		}
		return addr != ""
	})
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := fmt.Sprintf("is taken: process %d (", os.Getpid())
	if err := <-failed; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Route = %v, want an error that says %q", err, want)
	}
}

func TestR58_AForkThatOutlivesItsParentIsKilledAndTheActorSleeps(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "parent"))
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	child := printed(t, p, "a", "forked")
	if body, err := get(ride.Target, "/"); err != nil || body != strconv.Itoa(child) {
		t.Fatalf("served by %q (%v), want the fork %d", body, err, child)
	}
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGUSR1)
	waitState(t, p, "a", router.Asleep)
	if there(child) {
		t.Errorf("the fork %d is still there", child)
	}
	if _, err := net.Dial("tcp", ride.Target.Addr); err == nil {
		t.Error("the port is still open")
	}
}

func TestR58_AProcessThatLeftTheGroupIsEndedWithItsActor(t *testing.T) {
	a := acting("a", "daemon")
	a.Grace = 300 * time.Millisecond // for the daemon, which ignores TERM
	p := mustPlane(t, 1, a)
	mustRoute(t, p, "a").Done()
	daemon := printed(t, p, "a", "deaf")
	if statOf(daemon).pgrp == snapshotOf(t, p, "a").PID {
		t.Fatal("the daemon is still in its actor's group")
	}
	mustSleep(t, p, "a")
	if there(daemon) {
		t.Errorf("the daemon %d is still there", daemon)
	}
}

func TestNoZombieIsLeftByAnActorsOrphans(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "orphanage"))
	mustRoute(t, p, "a").Done()
	orphan := printed(t, p, "a", "forked")
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGSTOP) // it does not wait for its child
	eventually(t, "the orphan is a zombie", func() bool {
		syscall.Kill(orphan, syscall.SIGUSR1) // until it listens to that
		return statOf(orphan).state == 'Z'
	})
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGKILL)
	eventually(t, "the zombie is gone", func() bool { return statOf(orphan).state == 0 })
}

func TestReadinessIsTheNotificationWhereThereIsOne(t *testing.T) {
	a := acting("a", "notifier")
	a.Ready.Kind = ReadyNotify
	p := mustPlane(t, 1, a)
	rides := make(chan *router.Ride, 1)
	go func() {
		ride, err := routeTo(p, "a")
		if err != nil {
			t.Error(err)
		}
		rides <- ride
	}()
	eventually(t, "a listens", func() bool { return slices.Contains(snapshotOf(t, p, "a").Output, "listening") })
	if s := snapshotOf(t, p, "a"); s.State != router.Waking {
		t.Errorf("it is %s before it said that it is ready", s.State)
	}
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGUSR1)
	(<-rides).Done()
}

func TestAnActorMayNotifyAsOftenAsItLikes(t *testing.T) {
	a := acting("a", "chatty")
	a.Ready.Kind = ReadyNotify
	p := mustPlane(t, 1, a)
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	answered := make(chan error, 1)
	go func() { // Stop, in the cleanup, ends it at latest
		_, err := get(ride.Target, "/")
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the actor hangs in its messages")
	}
}

func TestR61_ASocketCanBeHandedDown(t *testing.T) {
	a := acting("a", "heir")
	a.Ready.Kind = ReadySocket
	p := mustPlane(t, 1, a)
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	if body, err := get(ride.Target, "/"); err != nil || body != strconv.Itoa(snapshotOf(t, p, "a").PID) {
		t.Errorf("served by %q, %v", body, err)
	}
	syscall.Kill(snapshotOf(t, p, "a").PID, syscall.SIGKILL)
	waitState(t, p, "a", router.Asleep)
	if _, err := net.Dial("tcp", ride.Target.Addr); err == nil {
		t.Error("the socket of an actor that is gone still takes connections")
	}
}

func TestR59_R60_AnActorThatAnswers503IsNotReady(t *testing.T) {
	a := acting("a", "unhealthy", "REFUSALS=5")
	a.Ready = Ready{ReadyHTTP, "/healthz"}
	never := acting("never", "unhealthy", "REFUSALS=1000000")
	never.Ready, never.StartTimeout = Ready{Kind: ReadyHTTP}, 500*time.Millisecond
	p := mustPlane(t, 2, a, never)
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	if _, err := get(ride.Target, "/"); err != nil {
		t.Errorf("the first request after the probes: %v", err)
	}
	if e := mustFail(t, p, "never"); !strings.Contains(e.Err.Error(), "GET / is answered with status 503") {
		t.Errorf("Err = %v", e.Err)
	}
}

func TestR30_AProbeThatIsNotAnsweredIsTriedAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	a := acting("a", "hesitant")
	a.Ready.Kind = ReadyHTTP
	p := mustPlane(t, 1, a)
	began := time.Now()
	mustRoute(t, p, "a").Done()
	if took := time.Since(began); took < firstProbeLimit {
		t.Errorf("ready after %v, before the first probe's limit of %v", took, firstProbeLimit)
	}
}

func TestTheProbeSpeaksTheActorsProtocol(t *testing.T) {
	a := acting("a", "h2c server")
	a.Ready.Kind, a.Protocol = ReadyHTTP, router.ProtocolH2C
	p := mustPlane(t, 1, a)
	ride := mustRoute(t, p, "a")
	defer ride.Done()
	if ride.Target.Protocol != router.ProtocolH2C {
		t.Errorf("Target = %+v", ride.Target)
	}
}

func TestAnActorIsNotHeldUpByItsOutput(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "bigmouth"))
	mustRoute(t, p, "a").Done()
	eventually(t, "the last line is shown", func() bool { // it may still be in the pipe
		out := snapshotOf(t, p, "a").Output
		return len(out) == shownLines && strings.HasPrefix(out[len(out)-1], "1999 x")
	})
}

func TestAnActorsEnvironmentIsItsOwn(t *testing.T) {
	for _, key := range []string{"NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC", "LAYOVER_SECRET"} {
		t.Setenv(key, "the router's")
	}
	t.Setenv("INHERITED", "yes")
	a := acting("pr-*", "server", "WHERE=http://{actor}.{match}:{port}/")
	p := mustPlane(t, 1, a)
	ride := mustRoute(t, p, "pr-7")
	defer ride.Done()
	body, err := get(ride.Target, "/env")
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(body, "\n")
	_, port, _ := net.SplitHostPort(ride.Target.Addr)
	for _, want := range []string{"INHERITED=yes", "PORT=" + port, "WHERE=http://pr-7.7:" + port + "/"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in the actor's environment", want)
		}
	}
	if strings.Contains(body, "the router's") {
		t.Errorf("what was meant for the router is in the actor's environment:\n%s", body)
	}
}

func TestAnActorInheritsNoFilesButItsThree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := acting("a", "")
	a.Command = []string{"/bin/sh", "-c", "for f in /proc/$$/fd/*; do readlink $f; done; exit 3"}
	p := mustPlane(t, 1, a)
	out := mustFail(t, p, "a").Output
	if len(out) < 3 || out[0] != "/dev/null" || !strings.HasPrefix(out[1], "pipe:") || out[2] != out[1] {
		t.Fatalf("the actor's files are %q, want /dev/null and twice a pipe", out)
	}
	if len(out) > 3 {
		t.Errorf("the actor inherits %q", out[3:])
	}
}

func TestAnActorCanRunAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	a := acting("a", "")
	a.User, a.Dir = "nobody", "/"
	a.Command = []string{"/bin/sh", "-c", `id -u; id -g; echo $USER $HOME; exit 3`}
	p := mustPlane(t, 1, a)
	want := []string{nobody.Uid, nobody.Gid, "nobody " + nobody.HomeDir}
	if out := mustFail(t, p, "a").Output; !slices.Equal(out, want) {
		t.Errorf("it runs as %q, want %q", out, want)
	}
	a.User = "nobody-of-this-name"
	_, err = New(Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{a}}, Options{})
	if err == nil || !strings.Contains(err.Error(), `actor "a": user "nobody-of-this-name"`) {
		t.Errorf("New = %v, want an error about the user", err)
	}
}

func TestG10_StopLeavesNoProcessAndNoFile(t *testing.T) {
	state := stateFolder(t)
	deaf := acting("deaf", "deaf server")
	p, err := New(Config{
		State: state, Pools: []Pool{{Name: "pool", Workers: 3}},
		Actors: []Actor{acting("a", "server"), acting("daemon", "daemon"), deaf},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "daemon", "deaf"} {
		mustRoute(t, p, name) // and is not done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if left := markedProcesses([]string{markerKey + "=" + p.host.(*osHost).run + "/"}); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	files, _ := filepath.Glob(filepath.Join(state, "*"))
	if want := []string{filepath.Join(state, "lock")}; !slices.Equal(files, want) {
		t.Errorf("the state folder has %q", files)
	}
}

func TestAStateFolderHasOneRouter(t *testing.T) {
	state := stateFolder(t)
	c := Config{State: state, Pools: []Pool{{Name: "pool", Workers: 1}}}
	p, err := New(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(c, Options{})
	if want := fmt.Sprintf("state folder %s is in use by process %d", state, os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the second New = %v, want an error that says %q", err, want)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	again, err := New(c, Options{})
	if err != nil {
		t.Fatalf("New after Stop: %v", err)
	}
	again.Stop(context.Background())
}

func TestAStateFolderThatOthersCanPrepareIsRefused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const stranger = 65534
	for _, test := range []struct {
		name    string
		prepare func(dir string) error
		want    string // part of the error
		root    bool   // only root can prepare it
	}{
		{"a folder that others can write", func(dir string) error { return os.Chmod(dir, 0o777) }, "can be written by others (mode 0777)", false},
		{"a folder of the group", func(dir string) error { return os.Chmod(dir, 0o770) }, "can be written by others (mode 0770)", false},
		{"a lock that leads elsewhere", func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "lock")) }, "state folder", false},
		{"a stranger's folder", func(dir string) error { return os.Chown(dir, stranger, -1) }, "belongs to user 65534", true},
		{"a stranger's link", func(dir string) error {
			own := dir + "-own"
			return errors.Join(os.Rename(dir, own), os.Symlink(own, dir), os.Lchown(dir, stranger, -1))
		}, "is a link that belongs to user 65534", true},
		{"a file", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("only root can prepare this")
			}
			dir := filepath.Join(t.TempDir(), "state")
			if err := errors.Join(os.Mkdir(dir, 0o700), test.prepare(dir)); err != nil {
				t.Fatal(err)
			}
			if err := CheckState(dir); test.want != "state folder" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("CheckState = %v, want an error that says %q", err, test.want)
			}
			p, err := New(Config{State: dir, Pools: []Pool{{Name: "pool", Workers: 1}}}, Options{})
			if err == nil {
				p.Stop(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New = %v, want an error that says %q", err, test.want)
			}
			if text, _ := os.ReadFile(secret); string(text) != "secret" {
				t.Errorf("a file elsewhere is now %q", text)
			}
		})
	}
}

func TestAStateFolderMayBeAnOwnLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(stateFolder(t), link); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{State: link, Pools: []Pool{{Name: "pool", Workers: 1}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(context.Background())
}

// killedRouter runs a router in state with three actors awake, kills it and
// returns the processes that were there.
func killedRouter(t *testing.T, state string) (pids map[string]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), actAs+"=router", "STATE="+state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "awake\n" {
		t.Fatalf("the router says %q", line)
	}
	text, err := os.ReadFile(filepath.Join(state, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	run := strings.Split(strings.Split(string(text), `"runs":["`)[1], `"`)[0]
	pids = make(map[string]int)
	for _, pid := range markedProcesses([]string{markerKey + "=" + run + "/"}) {
		name := "meek"
		switch {
		case marked(pid, markerKey+"="+run+"/deaf/"):
			name = "deaf"
		case marked(pid, markerKey+"="+run+"/daemon/") && statOf(pid).pgrp != statOf(statOf(pid).ppid).pgrp && marked(pid, actAs+"=deaf server"):
			name = "daemon's child"
		case marked(pid, markerKey+"="+run+"/daemon/"):
			name = "daemon"
		}
		pids[name] = pid
	}
	t.Cleanup(func() { // when the test failed
		for _, pid := range pids {
			signalIf(pid, syscall.SIGKILL, func() bool { return marked(pid, markerKey+"="+run+"/") })
		}
	})
	if len(pids) != 4 {
		t.Fatalf("the router runs %v, want 4 processes", pids)
	}
	cmd.Process.Kill()
	cmd.Wait()
	return pids
}

func TestR57_WhatAKilledRouterLeftIsEndedByTheNextOneOfItsFolderAndByNoOther(t *testing.T) {
	state := stateFolder(t)
	pids := killedRouter(t, state)
	eventually(t, "an actor that does not refuse ends with its router", func() bool { return !there(pids["meek"]) })
	other := mustPlane(t, 1, acting("a", "server"))
	mustRoute(t, other, "a").Done()
	for _, name := range []string{"deaf", "daemon's child"} {
		if !there(pids[name]) {
			t.Fatalf("%s was ended by a router of another folder, or with its own", name)
		}
	}
	var log strings.Builder
	p, err := New(Config{
		State: state, Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{acting("deaf", "server")},
	}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	for name, pid := range pids {
		if there(pid) {
			t.Errorf("%s is still there after the next New", name)
		}
	}
	if want := strconv.Itoa(pids["deaf"]); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not name process %s:\n%s", want, log.String())
	}
	if snapshotOf(t, other, "a").State != router.Awake {
		t.Error("the other router's actor was touched")
	}
	mustRoute(t, p, "deaf").Done()
}

func TestLeftoversAreKnownByTheirStartNotByTheirNumber(t *testing.T) {
	state := stateFolder(t)
	cmd := exec.Command("/bin/sleep", "1000") // what has the number now
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	stale := fmt.Sprintf(`{"pid":%d,"identity":"1@of another boot","marker":"%s=x/a/1"}`, cmd.Process.Pid, markerKey)
	if err := os.WriteFile(filepath.Join(state, "actor-a.json"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{State: state, Pools: []Pool{{Name: "pool", Workers: 1}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	if !there(cmd.Process.Pid) {
		t.Error("a process was ended that only has the number of one that was left")
	}
	if _, err := os.Stat(filepath.Join(state, "actor-a.json")); err == nil {
		t.Error("the stale file is still there")
	}
}

func TestR19_AThousandAtOnceOnASleepingActor(t *testing.T) {
	p := mustPlane(t, 1, acting("a", "server"))
	r := router.New(p, parking.NewLot(600), router.Options{})
	ctx, cancel := budget.For(context.Background(), patience)
	defer cancel()
	answers := make(chan error, 1000)
	for range cap(answers) {
		go func() {
			ride, err := r.Route(ctx, router.Ask{Actor: "a"})
			if err == nil {
				ride.Done()
			}
			answers <- err
		}()
	}
	served, shed := 0, 0
	for range cap(answers) {
		switch err := <-answers; {
		case err == nil:
			served++
		case router.ReasonOf(err) == router.LotFull:
			shed++
		default:
			t.Error(err)
		}
	}
	if served < 600 || served+shed != 1000 || snapshotOf(t, p, "a").Wakes != 1 {
		t.Errorf("%d served and %d shed of 1000 with 600 spots, %d wakes", served, shed, snapshotOf(t, p, "a").Wakes)
	}
}

// TestChurn has more actors than workers, requests of every length, and
// programs that are killed or behave badly, all at once for a moment. Whatever
// happens, each request has one outcome and nothing is left in the end.
func TestChurn(t *testing.T) {
	var actors []Actor
	for i, what := range []string{"server", "server", "slow server", "parent", "daemon", "heir", "flash", "quitter"} {
		a := acting(fmt.Sprintf("%c", 'a'+i), what)
		a.Grace = 50 * time.Millisecond
		if what == "heir" {
			a.Ready.Kind = ReadySocket
		}
		actors = append(actors, a)
	}
	p := mustPlane(t, 3, actors...)
	r := router.New(p, parking.NewLot(20), router.Options{})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), churnFor)
	defer cancel()
	var clients sync.WaitGroup
	var served, refused atomic.Int64
	for i := range uint64(12) {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, i))
			for ctx.Err() == nil {
				ctx, cancel := budget.For(context.Background(), time.Duration(rng.IntN(400))*time.Millisecond)
				ride, err := r.Route(ctx, router.Ask{Actor: actors[rng.IntN(len(actors))].Name})
				cancel()
				if err != nil {
					refused.Add(1)
					if reason := router.ReasonOf(err); reason == router.Internal || reason == router.UnknownActor {
						t.Error(err)
					}
					pause(context.Background(), 0)
					continue
				}
				served.Add(1)
				get(ride.Target, "/") // it may be killed under us
				if rng.IntN(10) == 0 {
					for _, a := range p.Snapshot().Actors {
						if a.Addr == ride.Target.Addr && a.PID > 0 {
							syscall.Kill(a.PID, syscall.SIGKILL)
						}
					}
				}
				ride.Done()
			}
		})
	}
	clients.Wait()
	if err := r.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	for _, a := range p.Snapshot().Actors {
		if a.Wanted != 0 || a.InFlight != 0 {
			t.Errorf("%s is wanted by %d and used by %d after all", a.Name, a.Wanted, a.InFlight)
		}
	}
	if served.Load() == 0 || r.Lot().Snapshot().Active != 0 {
		t.Errorf("%d served, %d refused, %d spots taken after all", served.Load(), refused.Load(), r.Lot().Snapshot().Active)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if left := markedProcesses([]string{markerKey + "=" + p.host.(*osHost).run + "/"}); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	t.Logf("%d served, %d refused", served.Load(), refused.Load())
}

const churnFor = time.Second
