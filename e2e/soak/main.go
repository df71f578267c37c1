// Soak runs layover for minutes under everything that a bad day has, and says
// whether it kept its promises.
//
// It builds the program, starts it twice (in the clear and with TLS) in front
// of twenty actors that share few workers, and sends mixed requests: HTTP/1.1,
// HTTP/2, gRPC, WebSockets, uploads, events, pipelined requests; with short
// deadlines, in two bands, and with clients that read slowly, close their side
// or leave at any moment. Meanwhile actors crash, hang, fail to start and are
// killed, the configuration is reloaded, and each router is stopped once and
// killed once, and replaced by another on its address: the one in the clear on
// a listening socket that outlives it, the one with TLS on one of its own. What
// a client may see of that is told at the type window. Then everything must be
// as it was before.
//
//	cd e2e && go run ./soak -time 3m
//
// It needs Linux, for /proc, and uses loopback addresses only. It exits with 1
// if anything is off, and then keeps its folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"layover/e2e/actor"
)

func main() {
	if actor.Run() {
		return
	}
	length := flag.Duration("time", 3*time.Minute, "how long the load lasts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of everything that the load leaves to chance; what it does in time is not repeatable")
	race := flag.Bool("race", false, "build layover with the race detector")
	flag.Parse()
	ok, err := soak(*length, *seed, *race)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func soak(length time.Duration, seed uint64, race bool) (ok bool, err error) {
	folder, err := os.MkdirTemp("", "layover-soak-")
	if err != nil {
		return false, err
	}
	fmt.Printf("seed %d, %v, folder %s\n", seed, length, folder)
	defer func() {
		killLeftovers(folder)
		if ok && err == nil {
			os.RemoveAll(folder)
		}
	}()
	binary := filepath.Join(folder, "layover")
	build := exec.Command("go", "build", "-o", binary, fmt.Sprintf("-race=%v", race), "./cmd/layover")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("go build: %w\n%s", err, out)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	var houses []*house
	for i, name := range []string{"clear", "tls"} {
		h, err := open(binary, folder, name, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return false, err
		}
		defer h.kill()
		houses = append(houses, h)
	}
	books := newBooks(folder)
	each(houses, func(h *house) { h.books = books })
	each(houses, func(h *house) { h.warmUp(ctx, books) })
	if books.bad {
		return books.report(os.Stdout, houses), nil
	}
	each(houses, func(h *house) { h.before = h.calm(books) })
	fmt.Printf("%s  both are up; the load begins\n", time.Now().Format(time.TimeOnly))
	each(houses, func(h *house) { h.storm(ctx, length, books) })
	fmt.Printf("%s  the load has ended\n", time.Now().Format(time.TimeOnly))
	each(houses, func(h *house) { h.after = h.calm(books) })
	each(houses, func(h *house) { h.compare(books) })
	each(houses, func(h *house) { h.closeDown(ctx, books) })
	books.balance(houses)
	return books.report(os.Stdout, houses), nil
}

// each does something with all at once and waits.
func each(houses []*house, do func(*house)) {
	done := make(chan struct{})
	for _, h := range houses {
		go func() {
			defer func() { done <- struct{}{} }()
			do(h)
		}()
	}
	for range houses {
		<-done
	}
}
