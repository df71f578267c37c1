package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"layover/internal/cli"
)

func TestServeWakesAnActorAndLeavesNoProcess(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 20*time.Millisecond, ""))
	if got := p.readyz(); got != 200 {
		t.Errorf("readyz is %d, want 200", got)
	}
	first, second := p.served("a.test"), p.served("A.test:80")
	if first.pid != second.pid {
		t.Errorf("two processes answered: %d, %d", first.pid, second.pid)
	}
	if a := p.get("b.test"); a.status != 404 {
		t.Errorf("an unknown actor: %+v, want 404", a)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if !gone(first.pid) {
		t.Errorf("actor %d is left", first.pid)
	}
}

func TestG10_R71_TermServesTheParkedThenExits(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, gate))
	parked := p.begin("a.test")
	until(t, "the request to park", func() bool { return p.parked() == 1 })
	p.signal(syscall.SIGTERM)
	until(t, "not ready", func() bool { return p.readyz() == 503 })
	until(t, "the listener to close", func() bool { return refused(p.front) })
	openGate(t, gate)
	a := <-parked
	if a.status != 200 {
		t.Errorf("the parked request got %+v, want 200", a)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if !gone(a.pid) {
		t.Errorf("actor %d is left", a.pid)
	}
}

func TestG10_TermLetsTheParkedEndByTheirBudget(t *testing.T) {
	never := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, never))
	parked := p.begin("a.test", "Operation-Timeout", "1s")
	until(t, "the request to park", func() bool { return p.parked() == 1 })
	p.signal(syscall.SIGTERM)
	if a := <-parked; a.status != 503 || !strings.Contains(a.body, "still_waking") {
		t.Errorf("the parked request got %+v, want 503 still_waking", a)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestG10_DrainDelayServesWhileNotReady(t *testing.T) {
	p := serving(t, t.TempDir(), "drain_delay: 1m\n"+byName+"actors:\n"+testActor("a", 0, ""))
	p.signal(syscall.SIGTERM)
	until(t, "not ready", func() bool { return p.readyz() == 503 })
	a := p.served("a.test")
	cli.Pause(t.Context(), cli.SameStop)
	p.signal(syscall.SIGTERM)
	p.exit()
	if !gone(a.pid) {
		t.Errorf("actor %d is left", a.pid)
	}
}

func TestR73_DrainTimeoutCutsOffWhatIsLeft(t *testing.T) {
	never := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), "drain_timeout: 100ms\n"+byName+"actors:\n"+testActor("a", 0, never))
	parked := p.begin("a.test")
	until(t, "the request to park", func() bool { return p.parked() == 1 })
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !p.logged("requests were cut off") {
		t.Errorf("exit code %d, want 0 and a line in the log", code)
	}
	if a := <-parked; a.err == nil && a.status == 200 {
		t.Errorf("the parked request got %+v", a)
	}
}

func TestR73_ADrainOutlastsTheLongestBudgetUnlessToldOtherwise(t *testing.T) {
	text := "actors: {a: {command: [sleep]}}\nroutes: [{host: a.test, actor: a, max_budget: 7m}, {host: b.test, actor: a, max_budget: 9m}]\n"
	if got := configOf(t, text).drainTimeout(); got != 9*time.Minute+drainSlack {
		t.Errorf("drainTimeout is %v, want 9m2s", got)
	}
	if got := configOf(t, "drain_timeout: 1m\n"+text).drainTimeout(); got != time.Minute {
		t.Errorf("drainTimeout is %v, want 1m", got)
	}
}

func TestAKeptActorIsAwakeBeforeAnyRequest(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+strings.Replace(testActor("a", 0, ""), "{command", "{keep_awake: true, command", 1))
	until(t, "the actor to wake", func() bool { return p.logged("actor awake", "actor=a") })
	if a := p.served("a.test"); a.pid == 0 {
		t.Errorf("answer %+v", a)
	}
}

func TestR11_R59_ARequestToAnActorWithoutASocketIsServedByTheNextOne(t *testing.T) {
	p := serving(t, t.TempDir(), byName+fmt.Sprintf("actors:\n  a: {command: [%q], env: {%s: 1}}\n", os.Args[0], asDeserter))
	first, second := p.served("a.test"), p.served("a.test")
	if first.pid == second.pid {
		t.Errorf("process %d answered twice", first.pid)
	}
	until(t, "the log to say why it was started again", func() bool { return p.logged("actor took no connections") })
}

func TestAReloadPutsTheLimitOfAnActorIntoForce(t *testing.T) {
	folder := t.TempDir()
	p := serving(t, folder, byName+"actors:\n"+testActor("a", 0, ""))
	first := p.served("a.test")
	p.write(byName + "actors:\n" + strings.Replace(testActor("a", 0, ""), "{command", "{max_concurrent: 3, command", 1))
	p.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return p.logged("may have 3 requests at once and 30 in line") })
	if again := p.served("a.test"); again.pid != first.pid {
		t.Errorf("process %d answers, before %d: a limit is no other program", again.pid, first.pid)
	}
	var status struct {
		Actors []struct {
			Limit int `json:"max_concurrent"`
		} `json:"actors"`
	}
	resp, err := http.Get("http://" + p.admin + "/statusz.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || len(status.Actors) != 1 || status.Actors[0].Limit != 3 {
		t.Errorf("the status shows %+v, %v, want the limit", status, err)
	}
}

func TestASecondSignalStopsAtOnceAndLeavesNoProcess(t *testing.T) {
	never := filepath.Join(t.TempDir(), "gate")
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, never)+testActor("b", 0, ""))
	b := p.served("b.test")
	parked := p.begin("a.test")
	until(t, "the request to park", func() bool { return p.parked() == 1 })
	p.signal(syscall.SIGTERM)
	until(t, "it to say what it waits for", func() bool {
		return p.logged("a second signal cuts them off", "parked=1 with_actors=0 at_most=5m")
	})
	cli.Pause(t.Context(), cli.SameStop)
	p.signal(os.Interrupt)
	if code := p.exit(); code != 1 || !p.logged("a second signal") {
		t.Errorf("exit code %d, want 1 and a line that says why", code)
	}
	if a := <-parked; a.err == nil && a.status == 200 {
		t.Errorf("the parked request got %+v", a)
	}
	if !gone(b.pid) {
		t.Errorf("actor %d is left", b.pid)
	}
}

func TestR74_ReloadUnderLoadDropsNothingAndTouchesOnlyWhatChanged(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	config := func(lot, workers int, delay time.Duration, more string) string {
		return fmt.Sprintf("lot: %d\npools: {default: {workers: %d}}\n", lot, workers) + byName + more +
			"actors:\n" + testActor("same", 0, "") + testActor("parked", 0, gate) + testActor("other", delay, "")
	}
	p := serving(t, t.TempDir(), config(10, 3, 0, ""))
	same, other := p.served("same.test"), p.served("other.test")
	parked := p.begin("parked.test")
	until(t, "the request to park", func() bool { return p.parked() == 1 })

	var load sync.WaitGroup
	var stop atomic.Bool
	var served atomic.Int64
	for range 4 {
		load.Go(func() {
			for !stop.Load() {
				if a := p.get("same.test"); a.status != 200 || a.pid != same.pid {
					t.Errorf("during a reload: %+v, want 200 from process %d", a, same.pid)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := 1; i <= 5; i++ {
		p.write(config(10+i, 3+i, time.Duration(i)*time.Millisecond, ""))
		p.signal(syscall.SIGHUP)
		until(t, "the reload", func() bool {
			return p.logged(fmt.Sprintf("lot is %d spots, before %d spots", 10+i, 9+i)) && p.logged(fmt.Sprintf("has %d workers, before %d", 3+i, 2+i))
		})
		before := served.Load()
		until(t, "requests to be served after it", func() bool { return served.Load() > before+20 || t.Failed() })
	}
	stop.Store(true)
	load.Wait()
	if !p.logged(`actor \"other\" changed`) || p.logged(`actor \"same\" changed`) || p.logged(`actor \"parked\" changed`) {
		t.Error("the log does not say that only other changed")
	}
	if again := p.served("other.test"); again.pid == other.pid {
		t.Errorf("the changed actor still is process %d", other.pid)
	}
	openGate(t, gate)
	if a := <-parked; a.status != 200 {
		t.Errorf("the request that was parked all the time got %+v", a)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestR74_ReloadFollowsALinkAndAStormOfSignalsHidesNoStop(t *testing.T) {
	folder := t.TempDir()
	p := serving(t, folder, byName+"actors:\n"+testActor("a", 0, ""))
	file, other := filepath.Join(folder, "f.yaml"), filepath.Join(folder, "g.yaml")
	p.write("lot: 9\n" + byName + "actors:\n" + testActor("a", 0, ""))
	if err := os.Rename(file, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("g.yaml", file); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		p.signal(syscall.SIGHUP)
	}
	until(t, "the reload", func() bool { return p.logged("lot is 9 spots, before 1024 spots") })
	for range 50 {
		p.signal(syscall.SIGHUP)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestR74_AWrongFileChangesNothing(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	before := p.served("a.test")
	p.write("lott: 5\n" + byName + "actors: {}\n")
	p.signal(syscall.SIGHUP)
	until(t, "the reload to be refused", func() bool { return p.logged("the configuration in force stays") })
	if !p.logged(`f.yaml:4: the file has no field \"lott\"; did you mean \"lot\"?`) || !p.logged("f.yaml:6: there are no actors") {
		t.Error("the log does not name both lines")
	}
	if n := strings.Count(p.logs.String(), "lott"); n != 1 {
		t.Errorf("the log has the first problem %d times", n)
	}
	if after := p.served("a.test"); after.pid != before.pid {
		t.Errorf("the actor was restarted")
	}
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestReloadNamesWhatNeedsARestartAndAppliesTheRest(t *testing.T) {
	p := serving(t, t.TempDir(), byName+"actors:\n"+testActor("a", 0, ""))
	p.write("linger: 1m\nlot: 7\npools: {default: {workers: 4, head_start: 1s}}\n" + byName + "actors:\n" + testActor("a", 0, "") + testActor("b", 0, ""))
	p.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return p.logged("reload: done") })
	for _, setting := range []string{"setting=linger", `setting="head_start of pool default"`} {
		if !p.logged("changes only with a restart", setting) {
			t.Errorf("the log does not have %s", setting)
		}
	}
	if !p.logged("lot is 7 spots, before 1024 spots") {
		t.Error("the lot did not change")
	}
	p.served("b.test")
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestAKilledRoutersActorsAreEndedByTheNext(t *testing.T) {
	folder := t.TempDir()
	config := byName + "actors:\n" + testActor("a", 0, "")
	p := serving(t, folder, config)
	before := p.served("a.test")
	p.signal(syscall.SIGKILL)
	p.exit()
	p = serving(t, folder, config)
	if !gone(before.pid) {
		t.Errorf("process %d of the killed router is left", before.pid)
	}
	if after := p.served("a.test"); after.pid == before.pid {
		t.Errorf("process %d answers for a new router", after.pid)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestTwoRoutersDoNotShareAStateFolder(t *testing.T) {
	folder := t.TempDir()
	p := serving(t, folder, byName+"actors:\n"+testActor("a", 0, ""))
	cmd := exec.Command(os.Args[0], "serve", "--config", filepath.Join(folder, "f.yaml"))
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprint(p.cmd.Process.Pid)) {
		t.Errorf("the second router: %v, it says %s; want the number of the first, %d", err, out, p.cmd.Process.Pid)
	}
	p.served("a.test")
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestAnAddressInUseIsSaidClearly(t *testing.T) {
	folder := t.TempDir()
	p := serving(t, folder, byName+"actors:\n"+testActor("a", 0, ""))
	file := filepath.Join(t.TempDir(), "g.yaml")
	os.WriteFile(file, []byte(fmt.Sprintf("listen: %s\nadmin: \"off\"\n", p.front)+byName+"actors:\n"+testActor("a", 0, "")), 0o600)
	cmd := exec.Command(os.Args[0], "serve", file)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if want := "listen: another program listens on " + p.front; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, it says %s; want %s", err, out, want)
	}
	p.signal(syscall.SIGTERM)
	p.exit()
}

func TestAStartThatFailsSaysTheFix(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "f.yaml")
	for text, want := range map[string]string{
		"state: " + file + "/state\nlisten: 127.0.0.1:0\n": "layover: state folder: mkdir " + file + ": not a directory; make it writable for this user, or set another folder as state\n",
		"listen: 192.0.2.1:80\n":                           "layover: listen: 192.0.2.1:80 is not an address of this machine; correct it, or use 127.0.0.1 or [::] for all\n",
	} {
		if err := os.WriteFile(file, []byte("admin: \"off\"\n"+byName+text+"actors: {a: {command: [sleep]}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := run(t, "serve", file); code != 1 || stderr != want {
			t.Errorf("exit code %d, stderr %q, want %q", code, stderr, want)
		}
	}
}

func TestPlainTakesPackageNamesAway(t *testing.T) {
	err := errors.New("local: actor \"a\": no such user\nrouter: no_worker: too late: budget: 1s spent: local: x")
	want := "actor \"a\": no such user\nno_worker: too late: 1s spent: x"
	if got := cli.Plain(err.Error()); got != want {
		t.Errorf("plain = %q, want %q", got, want)
	}
}

// certify writes a certificate for a.test with that serial number.
func certify(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"a.test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACertificateIsReloadedWhenItsFileChangesAndOnHUP(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "c.pem"), filepath.Join(folder, "k.pem")
	certify(t, cert, key, 1)
	p := serving(t, folder, fmt.Sprintf("tls: {cert: %q, key: %q}\n", cert, key)+byName+"actors:\n"+testActor("a", 0, ""))
	serial := func() (int64, string) {
		c, err := tls.Dial("tcp", p.front, &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", NextProtos: []string{"h2"}})
		if err != nil {
			return 0, err.Error()
		}
		defer c.Close()
		s := c.ConnectionState()
		return s.PeerCertificates[0].SerialNumber.Int64(), s.NegotiatedProtocol
	}
	if got, protocol := serial(); got != 1 || protocol != "h2" {
		t.Fatalf("serial %d, protocol %s; want 1, h2", got, protocol)
	}
	certify(t, cert, key, 2)
	until(t, "the second certificate", func() bool { got, _ := serial(); return got == 2 })
	if err := os.WriteFile(key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the broken key to be noticed", func() bool {
		got, _ := serial()
		return got == 2 && p.logged("the last one stays")
	})
	certify(t, cert, key, 3)
	p.signal(syscall.SIGHUP)
	until(t, "the third certificate", func() bool { got, _ := serial(); return got == 3 })
	p.signal(syscall.SIGTERM)
	p.exit()
}
