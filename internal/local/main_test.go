//go:build unix

package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"layover/internal/router"
	"layover/parking"
)

// actAs makes the test binary one of the programs that the tests run as actors.
const actAs = "ACT_AS"

func TestMain(m *testing.M) {
	if what := os.Getenv(actAs); what != "" {
		act(what)
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else the race detector holds up each exit for a second
	os.Exit(m.Run())
}

// act is the main function of an actor. What it needs beyond its name is in
// the environment.
func act(what string) {
	port := os.Getenv("PORT")
	switch what {
	case "server":
		serve(listen(port))
	case "wanderer": // listens, but not where it should
		l := listen("0")
		fmt.Println("at", l.Addr().(*net.TCPAddr).Port)
		serve(l)
	case "slow server": // listens after 10 ms
		<-time.After(10 * time.Millisecond)
		serve(listen(port))
	case "slow notifier":
		<-time.After(10 * time.Millisecond)
		l := listen(port)
		tell("READY=1")
		serve(l)
	case "slow heir":
		<-time.After(10 * time.Millisecond)
		l, err := net.FileListener(os.NewFile(3, "inherited"))
		if err != nil {
			os.Exit(5)
		}
		serve(l)
	case "deaf server": // ignores TERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf", os.Getpid())
		serve(listen(port))
	case "polite server": // says goodbye on TERM
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		l := listen(port)
		go func() {
			<-term
			fmt.Println("goodbye")
			os.Exit(0)
		}()
		serve(l)
	case "quitter":
		fmt.Println("the last words")
		fmt.Fprintln(os.Stderr, "boom")
		os.Exit(3)
	case "flash": // ready, and gone at once
		l := listen(port)
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		os.Exit(4)
	case "mute": // never listens
		fmt.Println("thinking")
		select {}
	case "unhealthy": // answers 503 to the first REFUSALS requests
		left, _ := strconv.Atoi(os.Getenv("REFUSALS"))
		http.Serve(listen(port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if left--; left >= 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
	case "hesitant": // never answers its first request
		first := true
		http.Serve(listen(port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				<-r.Context().Done()
			}
		}))
	case "notifier": // listens, and says so when it gets USR1
		usr1 := make(chan os.Signal, 1)
		signal.Notify(usr1, syscall.SIGUSR1)
		l := listen(port)
		go func() {
			fmt.Println("listening")
			<-usr1
			tell("STATUS=warm\nREADY=1\n")
		}()
		serve(l)
	case "chatty": // says 600 times how it is, and then answers
		l := listen(port)
		tell("READY=1")
		http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			for range 600 {
				tell("STATUS=busy")
			}
		}))
	case "heir": // serves the socket that it was given
		if os.Getenv("LISTEN_FDS") != "1" || os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
			fmt.Println("LISTEN_FDS", os.Getenv("LISTEN_FDS"), "LISTEN_PID", os.Getenv("LISTEN_PID"), "pid", os.Getpid())
			os.Exit(5)
		}
		l, err := net.FileListener(os.NewFile(3, "inherited"))
		if err != nil {
			fmt.Println(err)
			os.Exit(5)
		}
		serve(l)
	case "parent": // a fork in the same group serves; exits when it gets USR1
		usr1 := make(chan os.Signal, 1)
		signal.Notify(usr1, syscall.SIGUSR1)
		fork("server", os.Stdout, nil)
		<-usr1
	case "daemon": // serves, and leaves a process in a session of its own
		r, w, _ := os.Pipe()
		fork("deaf server", w, &syscall.SysProcAttr{Setsid: true}, "PORT=0")
		line, _ := bufio.NewReader(r).ReadString('\n')
		fmt.Print(line)
		serve(listen(port))
	case "bigmouth": // prints a lot before it listens
		line := strings.Repeat("x", 5000)
		for i := range 2000 {
			fmt.Println(i, line)
		}
		serve(listen(port))
	case "router":
		actAsRouter()
	case "orphanage": // leaves a process in a session of its own that ends when told
		fork("orphan", os.Stdout, &syscall.SysProcAttr{Setsid: true})
		serve(listen(port))
	case "escapee": // leaves a process in a session of its own that nothing tells whose it is
		os.Unsetenv(markerKey)
		fork("orphan", os.Stdout, &syscall.SysProcAttr{Setsid: true})
		serve(listen(port))
	case "orphan":
		usr1 := make(chan os.Signal, 1)
		signal.Notify(usr1, syscall.SIGUSR1)
		<-usr1
	case "h2c server":
		srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				w.WriteHeader(http.StatusHTTPVersionNotSupported)
			}
		})}
		srv.Protocols.SetUnencryptedHTTP2(true)
		srv.Serve(listen(port))
	default:
		fmt.Println("no such actor:", what)
		os.Exit(2)
	}
}

func listen(port string) net.Listener {
	l, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return l
}

// serve answers / with the process's number, /since with the time at which it
// began to, and /hang not at all.
func serve(l net.Listener) {
	since := time.Now().UnixNano()
	http.HandleFunc("/since", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, since) })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getpid()) })
	http.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	http.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Join(os.Environ(), "\n"))
	})
	http.Serve(l, nil)
}

func tell(message string) {
	c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err == nil {
		_, err = io.WriteString(c, message)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func fork(what string, stdout *os.File, attr *syscall.SysProcAttr, env ...string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), actAs+"="+what), env...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("forked", cmd.Process.Pid)
}

// acting returns an actor that runs act(what).
func acting(name, what string, env ...string) Actor {
	return Actor{
		Name: name, Pool: "pool", Command: []string{os.Args[0]}, Env: append([]string{actAs + "=" + what}, env...),
		StartTimeout: 20 * time.Second, Grace: 5 * time.Second,
	}
}

// stateFolder is one that only this user can write, whatever the umask.
func stateFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustPlane(t *testing.T, workers int, actors ...Actor) *Plane {
	t.Helper()
	p, err := New(Config{State: stateFolder(t), Pools: []Pool{{Name: "pool", Workers: workers}}, Actors: actors}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// actAsRouter runs a plane in the folder STATE, wakes its actors and says so.
func actAsRouter() {
	p, err := New(Config{
		State: os.Getenv("STATE"), Pools: []Pool{{Name: "pool", Workers: 3}},
		Actors: []Actor{acting("meek", "server"), acting("deaf", "deaf server"), acting("daemon", "daemon")},
	}, Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r := router.New(p, parking.NewLot(10), router.Options{})
	for _, name := range []string{"meek", "deaf", "daemon"} {
		if _, err := r.Route(context.Background(), router.Ask{Actor: name}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("awake")
	select {}
}
