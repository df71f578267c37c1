package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"layover/e2e/cache"
)

const programVariable = "LAYOVER_POSTGRES_PROGRAM"

// TestMain lets the test binary be the program that has a server and comes to a bad end.
func TestMain(m *testing.M) {
	if end := os.Getenv(programVariable); end != "" {
		program(end)
	}
	os.Exit(m.Run())
}

// program has a server that shares its standard error, says where, and ends as it is told.
func program(end string) {
	s, err := Start(context.Background(), Options{Log: os.Stderr})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.dir)
	switch end {
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panics":
		panic("ouch")
	}
}

// start starts a server for the test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	skipIfNone(t, err)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

func skipIfNone(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, ErrNone) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
}

func ask(t *testing.T, s *Server, query string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), query).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestItAnswersAsSoonAsStartReturns(t *testing.T) {
	s := start(t, Options{Settings: map[string]string{"work_mem": "3MB"}})
	if got := ask(t, s, "show work_mem"); got != "3MB" {
		t.Errorf("show work_mem = %s; want the 3MB of Options.Settings", got)
	}
	if got := ask(t, s, "select current_user || ' ' || current_setting('listen_addresses') || ' ' || current_setting('fsync')"); got != "postgres  off" {
		t.Errorf("user, addresses, fsync = %q; want postgres, none, off", got)
	}
	t.Log(ask(t, s, "select version()"))
}

func TestStopLeavesNothingBehind(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := start(t, Options{Log: w})
	w.Close()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	working := make(chan error)
	go func() { // a session at work does not hold it up
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "select pg_sleep(3600)")
		working <- err
	}()
	if err := s.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("Stop() again = %v", err)
	}
	if err := <-working; err == nil {
		t.Error("the session of a stopped server ended well")
	}
	wantEnd(t, r)
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v; want it gone", err)
	}
}

// wantEnd reads the log to its end: that is there when the last process that has it, the server's or a session's, is gone.
func wantEnd(t *testing.T, log *os.File) {
	t.Helper()
	log.SetReadDeadline(time.Now().Add(30 * time.Second))
	for buf := make([]byte, 1<<16); ; {
		if _, err := log.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a process of the server is left over")
		} else if err != nil {
			return
		}
	}
}

func TestItEndsWithTheProgram(t *testing.T) {
	if _, err := findBinaries(t.Context()); err != nil {
		skipIfNone(t, err)
		t.Fatal(err)
	}
	for _, end := range []string{"killed", "panics"} {
		t.Run(end, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), programVariable+"="+end)
			cmd.Stderr = w
			out, err := cmd.Output()
			w.Close()
			dir := strings.TrimSpace(string(out))
			if !filepath.IsAbs(dir) {
				t.Fatalf("the program said %q, and ended with %v", out, err)
			}
			defer os.RemoveAll(dir)
			if err == nil {
				t.Fatal("the program ended well")
			}
			wantEnd(t, r)
		})
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	_, err := Start(t.Context(), Options{Settings: map[string]string{"work_mem": "lots"}})
	skipIfNone(t, err)
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "work_mem"`) {
		t.Errorf("Start with a bad setting: %v; want the server's own words", err)
	}
}

func TestAStartEndsWithItsContext(t *testing.T) {
	if _, err := findBinaries(t.Context()); err != nil {
		skipIfNone(t, err)
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Start in 20 ms: %v; want DeadlineExceeded", err)
	}
}

// What a machine without Debian's server does.
func TestTheServerThatNPMShips(t *testing.T) {
	bin, err := fromNPM(t.Context(), cache.Folder())
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	s, err := startFrom(t.Context(), bin, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got, want := ask(t, s, "show server_version"), strings.SplitN(npmVersion, ".", 2)[0]+"."; !strings.HasPrefix(got, want) {
		t.Errorf("server_version = %s; want %s...", got, want)
	}
}

func TestNeitherSourceIsOneClearError(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if bin := newestDebian(filepath.Join(t.TempDir(), "*", "bin")); bin != "" {
		t.Fatalf("newestDebian of nothing = %s", bin)
	}
	if _, err := fromNPM(t.Context(), t.TempDir()); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("fromNPM without npm: %v; want ErrNotFound", err)
	}
}

func TestTheNewestDebianServerIsTaken(t *testing.T) {
	root := t.TempDir()
	for _, program := range []string{"9/bin/initdb", "9/bin/postgres", "15/bin/initdb", "15/bin/postgres", "16/bin/psql"} {
		file := filepath.Join(root, program)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := newestDebian(filepath.Join(root, "*", "bin")), filepath.Join(root, "15", "bin"); got != want {
		t.Errorf("newestDebian = %s; want %s", got, want)
	}
}
