// Package actor is a small backend that starts, answers and fails as its
// environment tells it, so that a router can be seen with good and bad actors.
//
//	if actor.Run() { // this process is one
//		return
//	}
//
// Whatever it answers carries its name (MarkHeader) and the id of the request
// (EchoHeader), so that its own errors can be told from the router's, and a
// response that reached the wrong request is found out.
package actor

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// The environment of an actor. Without Name a process is none.
const (
	Name     = "ACTOR_NAME"
	Kind     = "ACTOR_KIND"     // KindHTTP or KindGRPC; default: KindHTTP
	Start    = "ACTOR_START"    // its start takes so long
	Fail     = "ACTOR_FAIL"     // share of its starts that end with exit status 1, from 0 to 1
	Crash    = "ACTOR_CRASH"    // share of its requests that it dies of, before or after the header
	Hang     = "ACTOR_HANG"     // share of its requests that it does not answer
	Stubborn = "ACTOR_STUBBORN" // if not empty, TERM does not end it
	Events   = "ACTOR_EVENTS"   // file to which it adds a line per request that it got; default: none
)

// What Kind can be.
const (
	KindHTTP = "http" // HTTP/1.1, and HTTP/2 in the clear
	KindGRPC = "grpc" // grpc-go's own server
)

// What every response has.
const (
	MarkHeader = "X-Actor"
	EchoHeader = "X-Echo"
)

type server struct {
	name        string
	crash, hang float64
	events      *os.File
}

// Run is the program of an actor, if the environment says that this process is
// one. It reports whether it was; then it returns after SIGTERM.
func Run() bool {
	s := &server{name: os.Getenv(Name), crash: share(Crash), hang: share(Hang)}
	if s.name == "" {
		return false
	}
	signals := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if os.Getenv(Stubborn) != "" {
		signal.Ignore(signals...)
		signals = []os.Signal{syscall.SIGUSR1}
	}
	stop, cancel := signal.NotifyContext(context.Background(), signals...)
	defer cancel()
	delay, _ := time.ParseDuration(os.Getenv(Start))
	select {
	case <-stop.Done():
		return true
	case <-time.After(delay):
	}
	if rand.Float64() < share(Fail) {
		fmt.Fprintln(os.Stderr, "this start fails")
		os.Exit(1)
	}
	if err := s.serve(stop); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Handler is what an actor of that name serves, HTTP and gRPC, for a program
// that has actors in itself: it never fails but where the path asks for it, and
// then with the program.
func Handler(name string) http.Handler {
	s := &server{name: name}
	g := s.newGRPC()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			g.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
}

func share(variable string) float64 {
	p, _ := strconv.ParseFloat(os.Getenv(variable), 64)
	return p
}

func (s *server) serve(stop context.Context) error {
	if path := os.Getenv(Events); path != "" {
		var err error
		if s.events, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		return err
	}
	if os.Getenv(Kind) == KindGRPC {
		return s.serveGRPC(stop, l)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: s, Protocols: &protocols}
	go func() {
		<-stop.Done()
		server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// got notes that a request came. One write to a file opened for appending is
// one line, also among processes.
func (s *server) got(id, method string) {
	if s.events != nil {
		fmt.Fprintf(s.events, "%s %s %s\n", id, method, s.name)
	}
}

// dies reports whether this request is one that the actor crashes in.
func (s *server) dies() bool { return rand.Float64() < s.crash }

func (s *server) hangs() bool { return rand.Float64() < s.hang }

func crash() { os.Exit(3) }

// ServeHTTP answers by the path:
//
//	/upload   with the length and the CRC-32 of the body, as Sum writes them
//	/events   with n events, one every ms milliseconds, and a trailer
//	/socket   with a WebSocket that sends back what it gets
//	/large    with Large
//	/cut      with the begin of a body, and dies
//	/fail     with 503 of its own
//	/headers  with the headers that it got, as it had them, and private ones of a router's
//	else      with a line of its name
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	s.got(id, r.Method)
	if s.hangs() {
		<-r.Context().Done()
		return
	}
	dies := s.dies()
	if dies && rand.Float64() < 0.5 {
		crash()
	}
	w.Header().Set(MarkHeader, s.name)
	w.Header().Set(EchoHeader, id)
	if dies {
		cut(w)
	}
	switch r.URL.Path {
	case "/cut":
		cut(w)
	case "/large":
		io.WriteString(w, Large)
	case "/upload":
		upload(w, r)
	case "/events":
		events(w, r)
	case "/socket":
		socket(w, r)
	case "/fail":
		http.Error(w, "a failure of its own", http.StatusServiceUnavailable)
	case "/headers":
		headers(w, r)
	default:
		fmt.Fprintf(w, "%s is awake\n", s.name)
	}
}

// Large is more than any buffer on its way holds.
var Large = strings.Repeat("0123456789abcde\n", 1<<18)

// CutBody is what comes of a body that is cut off.
const CutBody = "this is not all"

// cut dies in the middle of a body, when some of it is on its way.
func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "1000000")
	io.WriteString(w, CutBody)
	http.NewResponseController(w).Flush()
	time.Sleep(5 * time.Millisecond)
	crash()
}

func upload(w http.ResponseWriter, r *http.Request) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, format(n, sum.Sum32()))
}

// Sum is how /upload describes a body.
func Sum(body []byte) string { return format(int64(len(body)), crc32.ChecksumIEEE(body)) }

func format(n int64, sum uint32) string { return fmt.Sprintf("%d %08x\n", n, sum) }

// headers writes what it got, one line each, among headers that only a router sets.
func headers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Layover-Reason", "mine")
	w.Header().Set("Layover_Any", "mine")
	w.Header().Set("Trailer", "Layover-Late, X-Late")
	r.Header.Write(w)
	w.Header().Set("Layover-Late", "mine")
	w.Header().Set("X-Late", "yes")
}

func events(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Trailer", "X-Count")
	rc := http.NewResponseController(w)
	for i := range n {
		fmt.Fprintf(w, "data: %d\n\n", i)
		if rc.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Duration(ms) * time.Millisecond):
		}
	}
	w.Header().Set("X-Count", strconv.Itoa(n))
}

func socket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if err := c.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}
