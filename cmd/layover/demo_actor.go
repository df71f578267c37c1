package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"layover/internal/cli"
)

// The environment of a process that is an actor of the demo.
const (
	demoName   = "LAYOVER_DEMO_ACTOR"
	demoDelay  = "LAYOVER_DEMO_DELAY"  // its start takes so long
	demoGate   = "LAYOVER_DEMO_GATE"   // and does not end before this file exists, if set
	demoEvents = "LAYOVER_DEMO_EVENTS" // file to which it adds a line when it starts and when it ends
)

// What a demo actor adds to its answers.
const (
	headerActor = "X-Demo-Actor"
	headerPID   = "X-Demo-Pid"
)

// runDemoActor is the program of the demo's actors, if this process is one: a
// server of one small page that takes a while to start. It reports whether it
// was.
func runDemoActor() bool {
	name := os.Getenv(demoName)
	if name == "" {
		return false
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	demoEvent("start", name)
	defer demoEvent("stop", name)
	began := time.Now()
	delay, _ := time.ParseDuration(os.Getenv(demoDelay))
	cli.Pause(stop, delay)
	for gate := os.Getenv(demoGate); gate != "" && stop.Err() == nil; cli.Pause(stop, 2*time.Millisecond) {
		if _, err := os.Stat(gate); err == nil {
			break
		}
	}
	if stop.Err() != nil {
		return true
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true
	}
	server := &http.Server{Handler: demoPage(name, time.Since(began))}
	go func() {
		<-stop.Done()
		server.Close()
	}()
	server.Serve(l)
	return true
}

// demoPage answers each path with a line about the actor, and /hold with one
// that stays open until the client leaves.
func demoPage(name string, took time.Duration) http.Handler {
	started := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set(headerActor, name)
		w.Header().Set(headerPID, fmt.Sprint(os.Getpid()))
		fmt.Fprintf(w, "%s is awake: process %d, started in %v, up for %v\n",
			name, os.Getpid(), took.Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
		if req.URL.Path == "/hold" {
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
		}
	})
}

// demoEvent adds a line to the events. One write to a file opened for appending
// is one line, so the order of the lines is the order of the events, also among
// processes and whatever their clocks say.
func demoEvent(what, name string) {
	f, err := os.OpenFile(os.Getenv(demoEvents), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %s %d\n", what, name, os.Getpid())
}
