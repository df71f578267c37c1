// Command compare measures the turnstile against its rivals and writes docs/benchmarks.md.
//
//	go run ./compare                # measure everything, then write the document and its pictures
//	go run ./compare -run jobs      # measure the parts whose name has "jobs" in it
//	go run ./compare -render        # write the document from what was measured last
//
// What is measured is kept as it is in .cache/bench: a CSV file with a value for each round, and what ran where and when. In a
// round every arm has one turn, in an order that changes from round to round, and a ratio is made within a round: what the machine
// does in the meantime meets both sides. A figure is the median over the rounds with its quartiles.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A part is one thing to measure.
type part struct {
	name    string
	measure func(*record) error
	write   func(*record) section
}

var parts = []part{
	{"speed", speed, writeSpeed},
	{"turns", turns, writeTurns},
	{"waits", waits, writeWaits},
	{"resume", resume, writeResume},
	{"order", order, writeOrder},
	{"storm", storm, writeStorm},
	{"resize", resize, writeResize},
	{"jobs", jobs, writeJobs},
	{"deadlines", deadlines, writeDeadlines},
}

// short makes everything quick and worthless: to try the program out.
var short bool

func main() {
	run := flag.String("run", "", "measure only the parts whose name contains `text`")
	render := flag.Bool("render", false, "measure nothing: write the document from what was measured last")
	dry := flag.Bool("dry", false, "do not write the document")
	flag.BoolVar(&short, "short", false, "a few short rounds, to try it out; never writes the document")
	flag.Parse()
	if err := compare(*run, *render, *dry || short); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(run string, render, dry bool) error {
	root, err := treeRoot()
	if err != nil {
		return err
	}
	cache := filepath.Join(root, ".cache", "bench")
	if short {
		cache = filepath.Join(cache, "short")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, p := range parts {
		if render || !strings.Contains(p.name, run) {
			continue
		}
		fmt.Printf("%-10s ", p.name)
		if err := measurePart(p, cache); err != nil {
			fmt.Println("NOT MEASURED:", err)
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	if !dry {
		failed = append(failed, writeDocument(root, cache))
	} else if short {
		failed = append(failed, show(cache, run))
	}
	return errors.Join(failed...)
}

func measurePart(p part, cache string) error {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	r := &record{Part: p.name, At: time.Now().UTC(), Load: loadAverage(), cache: cache}
	start := time.Now()
	if err := p.measure(r); err != nil {
		return err
	}
	r.Took = time.Since(start)
	r.Machine = machine(procs)
	fmt.Printf("%6.1f s, %d values, load average before %s\n", r.Took.Seconds(), len(r.points), r.Load)
	return r.save()
}

// show prints the tables of what was measured.
func show(cache, run string) error {
	for _, p := range parts {
		if !strings.Contains(p.name, run) {
			continue
		}
		r, err := load(cache, p.name)
		if err != nil {
			return err
		}
		fmt.Println(p.write(r).text)
	}
	return nil
}

// treeRoot is the folder of the module layover: here or above.
func treeRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		is, err := declares(filepath.Join(dir, "go.mod"), "module layover")
		if err != nil {
			return "", err
		}
		if is {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the tree of the module layover")
		}
		dir = filepath.Dir(dir)
	}
}

func declares(file, line string) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	first, _ := bufio.NewReader(f).ReadString('\n')
	return strings.TrimSpace(first) == line, nil
}
