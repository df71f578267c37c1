package local

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule is when an actor is kept awake: always, or in daily windows. The
// zero value is never. A schedule is wall time on purpose, so it follows the
// clock when that is set.
type Schedule struct {
	Always  bool
	Windows []Window
}

// Window is a part of certain days.
type Window struct {
	// Days are those on which the window begins, by time.Weekday. None of them:
	// every day.
	Days [7]bool
	// From and To are minutes since midnight, To at most 24 hours. The window is
	// from the first to just before the second, on the next day if To is
	// earlier. An edge that the clock passes over in spring is where it jumps;
	// one that it shows twice in autumn begins a window the first time and ends
	// it the last.
	From, To int
	// Zone is where the clock is. Default: the machine's.
	Zone *time.Location
}

const (
	minutesPerDay = 24 * 60
	mostWindows   = 50 // of one actor: all are gone through each minute
	horizon       = 9  // days that At looks ahead: a week, and what a zone may leave out
)

func (s Schedule) never() bool { return !s.Always && len(s.Windows) == 0 }

func (s Schedule) equal(t Schedule) bool {
	return s.Always == t.Always && slices.EqualFunc(s.Windows, t.Windows, func(v, w Window) bool {
		return v.Days == w.Days && v.From == w.From && v.To == w.To && v.zone().String() == w.zone().String()
	})
}

func (s Schedule) problems() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Always && len(s.Windows) > 0 {
		bad("is kept awake always and in windows: remove one of them")
	}
	if len(s.Windows) > mostWindows {
		bad("is kept awake in %d windows: use at most %d", len(s.Windows), mostWindows)
	}
	for _, w := range s.Windows {
		switch {
		case w.From < 0 || w.From >= minutesPerDay || w.To < 0 || w.To > minutesPerDay:
			bad("is kept awake from minute %d to %d of the day: use 0 to %d", w.From, w.To, minutesPerDay)
		case w.From == w.To:
			bad("is kept awake from %s to %s, which is no time: for all day use 00:00 to 24:00", clock(w.From), clock(w.To))
		}
	}
	return errs
}

// At reports whether t is in the schedule, and when that changes: zero if it
// never does. Windows that meet are one. An edge more than a week ahead may be
// reported too early, as one at which nothing changes.
func (s Schedule) At(t time.Time) (in bool, edge time.Time) {
	if s.Always {
		return true, time.Time{}
	}
	return nextEdge(t.Round(0), s.Windows)
}

// nextEdge is At of windows. It is pure: t has no monotonic reading.
func nextEdge(t time.Time, windows []Window) (in bool, edge time.Time) {
	type span struct{ from, to time.Time }
	var spans []span
	for _, w := range windows {
		year, month, day := t.In(w.zone()).Date()
		for ahead := -2; ahead < horizon; ahead++ { // one that began yesterday may last, also across a day that a zone left out
			from, to, ok := w.on(year, month, day+ahead)
			if ok && to.After(t) {
				spans = append(spans, span{from, to})
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range spans {
		switch {
		case !in && s.from.After(t):
			return false, s.from
		case in && s.from.After(edge):
			return true, edge
		case s.to.After(edge):
			in, edge = true, s.to
		}
	}
	return in, edge
}

// on returns the window that begins on the given day, which need not be
// normal; false if there is none.
func (w Window) on(year int, month time.Month, day int) (from, to time.Time, ok bool) {
	begins := time.Date(year, month, day, 0, w.From, 0, 0, time.UTC)
	if w.Days != ([7]bool{}) && !w.Days[begins.Weekday()] {
		return from, to, false
	}
	if w.To <= w.From {
		day++
	}
	from, _ = instants(begins, w.zone())
	_, to = instants(time.Date(year, month, day, 0, w.To, 0, 0, time.UTC), w.zone())
	return from, to, from.Before(to)
}

func (w Window) zone() *time.Location {
	if w.Zone == nil {
		return time.Local
	}
	return w.Zone
}

// instants returns the first and the last moment at which the clock of zone
// shows what wall shows in UTC. If it passes over that, both are the moment at
// which it does. [time.Date] would choose one of two, and does not say which.
func instants(wall time.Time, zone *time.Location) (first, last time.Time) {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)
	start, end := guess.ZoneBounds()
	offsets := []int{offset(guess)}
	if !start.IsZero() {
		offsets = append(offsets, offset(start.Add(-1)))
	}
	if !end.IsZero() {
		offsets = append(offsets, offset(end))
	}
	for _, o := range offsets {
		at := wall.Add(-time.Duration(o) * time.Second).In(zone)
		if offset(at) != o {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if last.IsZero() || at.After(last) {
			last = at
		}
	}
	if !first.IsZero() {
		return first, last
	}
	jump := end // guess has the offset from after the jump, and so lies before it
	if guess.Add(time.Duration(offset(guess)) * time.Second).After(wall) {
		jump = start
	}
	return jump, jump
}

func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// String is the schedule as a person would say it.
func (s Schedule) String() string {
	switch {
	case s.Always:
		return "always"
	case len(s.Windows) == 0:
		return "never"
	}
	texts := make([]string, len(s.Windows))
	for i, w := range s.Windows {
		texts[i] = w.String()
	}
	return strings.Join(texts, ", ")
}

// String is like "mon-fri 08:00-18:30 Europe/Lisbon".
func (w Window) String() string {
	text := clock(w.From) + "-" + clock(w.To)
	if w.Days != ([7]bool{}) {
		text = daysText(w.Days) + " " + text
	}
	if w.Zone != nil {
		text += " " + w.Zone.String()
	}
	return text
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// weekdays are the short names of days, from monday on.
var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// daysText names days, with a dash for three and more in a row.
func daysText(days [7]bool) string {
	on := func(i int) bool { return days[(i+1)%7] } // from monday on
	var texts []string
	for i := 0; i < 7; i++ {
		if !on(i) {
			continue
		}
		last := i
		for last+1 < 7 && on(last+1) {
			last++
		}
		if last-i < 2 {
			texts = append(texts, weekdays[i])
			continue
		}
		texts = append(texts, weekdays[i]+"-"+weekdays[last])
		i = last
	}
	return strings.Join(texts, ",")
}

// ParseDays reads days such as "mon-fri", "sat,sun" or "fri-mon,wed".
func ParseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return days, fmt.Errorf("%q is no day: use %s, with '-' for a row of them and ',' between", part, strings.Join(weekdays, " "))
		}
		for i := from; ; i = (i + 1) % 7 {
			days[(i+1)%7] = true
			if i == to {
				break
			}
		}
	}
	return days, nil
}

// ParseClock reads a time of the day, "00:00" to "24:00", as minutes since
// midnight.
func ParseClock(text string) (minutes int, err error) {
	if text == "24:00" {
		return minutesPerDay, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, errors.New("is no time of the day: use one like 08:30, or 24:00 for the end of the day")
	}
	return 60*t.Hour() + t.Minute(), nil
}
