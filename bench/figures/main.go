// Command figures measures what the documents promise and says whether it
// held on this machine.
//
//	go run ./figures             # everything, some minutes
//	go run ./figures -run lot    # the parts whose name has "lot" in it
//
// Comparisons are ratios of interleaved pairs, median and quartiles. It exits
// with 1 if a promise was broken.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

var parts = []struct {
	name    string
	measure func(*report) error
}{
	{"hand-off", handOff},
	{"control plane", probing},
	{"lot", fullLot},
	{"warm path", warmPath},
	{"wake-up", wakeUp},
	{"parked", park},
	{"upload", upload},
	{"pages", pages},
}

func main() {
	if delay := os.Getenv(actorEnv); delay != "" {
		actAsActor(delay)
		return
	}
	run := flag.String("run", "", "measure only the parts whose name contains `text`")
	flag.Parse()
	r := &report{out: os.Stdout}
	for _, part := range parts {
		if !strings.Contains(part.name, *run) {
			continue
		}
		r.begin(part.name)
		if err := part.measure(r); err != nil {
			fmt.Fprintf(os.Stderr, "figures: %s: %v\n", part.name, err)
			os.Exit(1)
		}
	}
	if len(r.broken) > 0 {
		fmt.Printf("\n%d broken: %s\n", len(r.broken), strings.Join(r.broken, "; "))
		os.Exit(1)
	}
	fmt.Println("\nall held")
}
