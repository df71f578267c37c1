package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"

	"layover/internal/answer"
	"layover/internal/router"
)

// rowOf is the row of a reason that the router knows.
func rowOf(reason string) (answer.Row, bool) {
	for _, row := range answer.Table {
		if row.Reason == router.Reason(reason) {
			return row, true
		}
	}
	return answer.Row{}, false
}

// explained reports whether a request of this role may be refused so.
func (s *shot) explained(reason string) bool {
	return slices.Contains(anyReasons, reason) || slices.Contains(s.role.reasons, reason)
}

func (s *shot) judgeRefusal(code int, reason, retryAfter string) ending {
	row, ok := rowOf(reason)
	seconds, err := strconv.Atoi(retryAfter)
	switch {
	case !ok || row.Status != code:
		return faulty("status %d with reason %q", code, reason)
	case row.Retry && (err != nil || seconds < 1):
		return faulty("%s with Retry-After %q", reason, retryAfter)
	case !s.explained(reason):
		return faulty("%s was refused as %s", s.role.name, reason)
	}
	return ending{outcome: refused, reason: reason}
}

func (s *shot) judgeCode(code codes.Code, reason string) ending {
	row, ok := rowOf(reason)
	switch {
	case !ok || codes.Code(row.Code) != code:
		return faulty("%v with reason %q", code, reason)
	case !s.explained(reason):
		return faulty("%s was refused as %s", s.role.name, reason)
	}
	return ending{outcome: refused, reason: reason}
}

// books are what was sent and what became of it.
type books struct {
	folder string

	mu       sync.Mutex
	entries  map[string]entry
	kinds    map[string]map[outcome]int
	reasons  map[string]int
	latest   time.Duration // after the end of a request's budget
	faults   []string
	verdicts []string
	bad      bool
}

type entry struct {
	shot   *shot
	ending ending
}

func newBooks(folder string) *books {
	return &books{folder: folder, entries: make(map[string]entry), kinds: make(map[string]map[outcome]int), reasons: make(map[string]int)}
}

// enter notes the one ending of a shot.
func (b *books) enter(s *shot, e ending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := b.entries[s.id]; twice {
		e = faulty("ended twice")
	}
	if over := e.took - e.without - s.limit(); e.took > 0 && over > b.latest {
		b.latest = over
		if over > late {
			e = faulty("%s %s %v after the end of its %v", e.outcome, e.reason, over, s.limit())
		}
	}
	b.entries[s.id] = entry{s, e}
	if b.kinds[s.kind] == nil {
		b.kinds[s.kind] = make(map[outcome]int)
	}
	b.kinds[s.kind][e.outcome]++
	if e.outcome == refused {
		b.reasons[e.reason]++
	}
	if e.outcome == fault {
		b.faultLocked("%s %s to %s (timeout %v, leaves after %v): %s", s.id, s.kind, s.to, s.timeout, s.leaveAfter, e.what)
	}
}

func (b *books) faultLocked(format string, args ...any) {
	b.bad = true
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *books) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faultLocked(format, args...)
}

// verdict notes whether something held.
func (b *books) verdict(held bool, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	word := "held  "
	if !held {
		word, b.bad = "FAILED", true
	}
	b.verdicts = append(b.verdicts, word+"  "+fmt.Sprintf(format, args...))
}

// check notes an error of soak's own.
func (b *books) check(err error) {
	if err != nil {
		b.verdict(false, "%v", err)
	}
}

// balance compares what the clients saw with what layover logged and what the
// actors got.
func (b *books) balance(houses []*house) {
	records := make(map[string][]string) // reasons, by id
	for _, h := range houses {
		b.check(readLog(h, records, b))
	}
	got := make(map[string]int) // by id
	for _, h := range houses {
		b.check(eachLine(h.events, func(line string) {
			id, _, _ := strings.Cut(line, " ")
			got[id]++
		}))
	}
	for _, h := range houses {
		b.doors(h)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.faults)
	for _, id := range slices.Sorted(maps.Keys(b.entries)) {
		e := b.entries[id]
		b.balanceOne(e, records[id], got[id])
		delete(records, id)
	}
	for id, reasons := range records {
		b.faultLocked("layover logged %v for %s, which nobody sent", reasons, id)
	}
	word := "held  "
	if len(b.faults) > before {
		word = "FAILED"
	}
	b.verdicts = append(b.verdicts, fmt.Sprintf("%s  %d requests: one end for the client, the same in layover's log, and no body twice to an actor",
		word, len(b.entries)))
}

// doors says what the clients saw of the router's restarts.
func (b *books) doors(h *house) {
	counts := make(map[outcome]int)
	b.mu.Lock()
	for id, e := range b.entries {
		if strings.HasPrefix(id, h.name+"-") {
			counts[e.ending.outcome]++
		}
	}
	b.mu.Unlock()
	what, held := "each router opens its own socket", true
	if h.socket != nil {
		what, held = "the socket outlives the routers", counts[noDoor] == 0
	}
	b.verdict(held, "%s: %s: %d connections refused between two of them, %d closed before the answer began, %d killed with a router",
		h.name, what, counts[noDoor], counts[hungUp], counts[killed])
}

// balanceOne needs b.mu.
func (b *books) balanceOne(e entry, records []string, got int) {
	s, end := e.shot, e.ending
	wrong := func(format string, args ...any) {
		b.faultLocked("%s %s to %s, %s %s: %s", s.id, s.kind, s.to, end.outcome, end.reason, fmt.Sprintf(format, args...))
	}
	body := s.kind == "upload" || s.role.grpc || strings.HasSuffix(s.kind, "rude")
	switch {
	case end.outcome == fault:
	case slices.Contains([]outcome{noDoor, hungUp}, end.outcome) && len(records)+got > 0 && !s.role.dies:
		wrong("layover logged %q, actors got it %d times", records, got)
	case len(records) > 1, len(records) == 0 && !end.mayMiss:
		wrong("layover logged %d ends: %q", len(records), records)
	case len(records) == 0:
	case end.outcome == refused && records[0] != end.reason:
		wrong("layover logged %q", records[0])
	case slices.Contains([]outcome{served, own, cut, hidden}, end.outcome) && records[0] != "":
		wrong("layover logged %q", records[0])
	case got > 1 && (body || !s.role.dies):
		wrong("actors got it %d times", got)
	case got == 0 && (end.outcome == served || end.outcome == own):
		wrong("no actor got it")
	}
}

// readLog collects the requests' records, and finds what should not be there.
func readLog(h *house, records map[string][]string, b *books) error {
	return eachLine(h.logFile, func(line string) {
		var r struct{ Level, Msg, ID, Reason, Err string }
		if json.Unmarshal([]byte(line), &r) != nil {
			b.fault("%s: layover printed %.300q", h.name, line)
			return
		}
		switch {
		case r.Msg == "request":
			records[r.ID] = append(records[r.ID], r.Reason)
		case r.Level == "ERROR" && !strings.HasPrefix(r.Msg, "reload: "):
			b.fault("%s: layover logged %.300s", h.name, line)
		}
	})
}

func eachLine(file string, do func(line string)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}

// report prints everything and says whether all was well.
func (b *books) report(out io.Writer, houses []*house) bool {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\nkind\tsent\t")
	for _, o := range outcomes {
		fmt.Fprintf(table, "%s\t", o)
	}
	fmt.Fprintln(table)
	all := make(map[outcome]int)
	line := func(name string, counts map[outcome]int) {
		sent := 0
		for _, n := range counts {
			sent += n
		}
		fmt.Fprintf(table, "%s\t%d\t", name, sent)
		for _, o := range outcomes {
			fmt.Fprintf(table, "%d\t", counts[o])
		}
		fmt.Fprintln(table)
	}
	for _, kind := range slices.Sorted(maps.Keys(b.kinds)) {
		line(kind, b.kinds[kind])
		for o, n := range b.kinds[kind] {
			all[o] += n
		}
	}
	line("all", all)
	table.Flush()
	fmt.Fprint(out, "\nrefused as")
	for _, reason := range slices.Sorted(maps.Keys(b.reasons)) {
		fmt.Fprintf(out, "  %s %d", reason, b.reasons[reason])
	}
	fmt.Fprintln(out)
	for _, h := range houses {
		fmt.Fprintf(out, "%s: reloaded %d times, %d actors killed, the router restarted %d times\n", h.name, h.reloads, h.kills, len(h.windows))
	}
	fmt.Fprintf(out, "the latest answer came %v after the end of its budget\n\n", max(b.latest, 0).Round(time.Millisecond))
	for _, v := range b.verdicts {
		fmt.Fprintln(out, v)
	}
	for i, f := range b.faults {
		if i == 40 {
			fmt.Fprintf(out, "and %d more\n", len(b.faults)-i)
			break
		}
		fmt.Fprintln(out, "FAULT ", f)
	}
	if b.bad {
		fmt.Fprintf(out, "\nNOT ALL WELL; logs are in %s\n", b.folder)
	} else {
		fmt.Fprintln(out, "\nall well")
	}
	return !b.bad
}
