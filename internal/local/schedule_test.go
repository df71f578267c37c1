package local

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/router"
)

// at is a window such as "mon-fri 08:00-18:30 Europe/Lisbon".
func at(t *testing.T, text string) Window {
	t.Helper()
	var w Window
	var err error
	parts := strings.Fields(text)
	if !strings.Contains(parts[0], ":") {
		if w.Days, err = ParseDays(parts[0]); err != nil {
			t.Fatal(err)
		}
		parts = parts[1:]
	}
	from, to, _ := strings.Cut(parts[0], "-")
	if w.From, err = ParseClock(from); err != nil {
		t.Fatal(err)
	}
	if w.To, err = ParseClock(to); err != nil {
		t.Fatal(err)
	}
	w.Zone = time.UTC
	if len(parts) > 1 {
		if w.Zone, err = time.LoadLocation(parts[1]); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestTheNextEdgeOfWindows(t *testing.T) {
	const none = "0001-01-01 00:00:00"
	tests := []struct {
		windows string // with semicolons between
		now     string // UTC
		in      bool
		edge    string // UTC
	}{
		// 2026-03-02 is a monday.
		{"08:00-18:30", "2026-03-02 07:59:59", false, "2026-03-02 08:00:00"},
		{"08:00-18:30", "2026-03-02 08:00:00", true, "2026-03-02 18:30:00"},
		{"08:00-18:30", "2026-03-02 18:29:59", true, "2026-03-02 18:30:00"},
		{"08:00-18:30", "2026-03-02 18:30:00", false, "2026-03-03 08:00:00"},
		{"08:00-18:30 Europe/Berlin", "2026-03-02 07:00:00", true, "2026-03-02 17:30:00"},
		{"08:00-18:30 Asia/Kathmandu", "2026-03-02 02:15:00", true, "2026-03-02 12:45:00"},
		{"mon-fri 08:00-18:30", "2026-03-06 18:30:00", false, "2026-03-09 08:00:00"},
		{"wed 08:00-09:00", "2026-03-04 09:00:00", false, "2026-03-11 08:00:00"},
		{"fri-mon 08:00-09:00", "2026-03-02 09:00:00", false, "2026-03-06 08:00:00"},
		{"00:00-24:00", "2026-03-02 08:00:00", true, "2026-03-11 00:00:00"},
		{"sat,sun 00:00-24:00", "2026-03-02 08:00:00", false, "2026-03-07 00:00:00"},
		{"sat,sun 00:00-24:00", "2026-03-07 23:59:59", true, "2026-03-09 00:00:00"},
		{"12:00-24:00", "2026-03-02 13:00:00", true, "2026-03-03 00:00:00"},
		// Over midnight, the day is that of the begin.
		{"22:00-06:00", "2026-03-02 05:59:59", true, "2026-03-02 06:00:00"},
		{"22:00-06:00", "2026-03-02 06:00:00", false, "2026-03-02 22:00:00"},
		{"22:00-06:00", "2026-03-02 23:00:00", true, "2026-03-03 06:00:00"},
		{"fri 22:00-06:00", "2026-03-06 05:00:00", false, "2026-03-06 22:00:00"},
		{"fri 22:00-06:00", "2026-03-07 05:00:00", true, "2026-03-07 06:00:00"},
		{"sun 22:00-00:00", "2026-03-08 23:00:00", true, "2026-03-09 00:00:00"},
		// The day is that of the zone, not that of UTC.
		{"mon 01:00-02:00 Pacific/Auckland", "2026-03-01 12:00:00", true, "2026-03-01 13:00:00"},
		// Several windows; those that meet are one.
		{"08:00-12:00;13:00-17:00", "2026-03-02 12:00:00", false, "2026-03-02 13:00:00"},
		{"08:00-12:00;12:00-17:00", "2026-03-02 09:00:00", true, "2026-03-02 17:00:00"},
		{"12:00-17:00;08:00-13:00;09:00-10:00", "2026-03-02 09:30:00", true, "2026-03-02 17:00:00"},
		{"08:00-09:00 Europe/Lisbon;08:00-09:00 Europe/Berlin", "2026-03-02 07:30:00", true, "2026-03-02 09:00:00"},
		// In Lisbon, on 29 March 2026 01:00 is followed by 02:00, at 01:00 UTC.
		{"08:00-18:30 Europe/Lisbon", "2026-03-28 19:00:00", false, "2026-03-29 07:00:00"},
		{"01:30-03:00 Europe/Lisbon", "2026-03-29 00:59:59", false, "2026-03-29 01:00:00"},
		{"01:30-03:00 Europe/Lisbon", "2026-03-29 01:00:00", true, "2026-03-29 02:00:00"},
		{"00:30-01:30 Europe/Lisbon", "2026-03-29 00:30:00", true, "2026-03-29 01:00:00"},
		{"01:15-01:45 Europe/Lisbon", "2026-03-29 00:30:00", false, "2026-03-30 00:15:00"},
		{"23:00-01:30 Europe/Lisbon", "2026-03-29 00:30:00", true, "2026-03-29 01:00:00"},
		// There, on 25 October 2026 02:00 is followed by 01:00, at 01:00 UTC.
		{"08:00-18:30 Europe/Lisbon", "2026-10-24 18:00:00", false, "2026-10-25 08:00:00"},
		{"01:30-03:00 Europe/Lisbon", "2026-10-25 00:00:00", false, "2026-10-25 00:30:00"},
		{"01:30-03:00 Europe/Lisbon", "2026-10-25 01:10:00", true, "2026-10-25 03:00:00"},
		{"00:30-01:30 Europe/Lisbon", "2026-10-25 00:45:00", true, "2026-10-25 01:30:00"},
		{"01:15-01:45 Europe/Lisbon", "2026-10-25 00:15:00", true, "2026-10-25 01:45:00"},
		// West of Greenwich: in New York 02:00 is followed by 03:00 on 8 March 2026 at 07:00 UTC, and 02:00 by 01:00 on 1 November at 06:00 UTC.
		{"02:30-04:00 America/New_York", "2026-03-08 06:00:00", false, "2026-03-08 07:00:00"},
		{"01:30-04:00 America/New_York", "2026-11-01 05:00:00", false, "2026-11-01 05:30:00"},
		{"00:30-01:30 America/New_York", "2026-11-01 05:45:00", true, "2026-11-01 06:30:00"},
		// Half an hour: Lord Howe, 02:00 to 02:30 on 4 October 2026 at 15:30 UTC the day before.
		{"02:15-03:00 Australia/Lord_Howe", "2026-10-03 15:00:00", false, "2026-10-03 15:30:00"},
		// A midnight that is passed over: Cairo, 24 April 2026, at 22:00 UTC the day before.
		{"00:00-08:00 Africa/Cairo", "2026-04-23 21:00:00", false, "2026-04-23 22:00:00"},
		// A day that is passed over: Apia had no 30 December 2011, which was a friday.
		{"fri 08:00-09:00 Pacific/Apia", "2011-12-29 20:00:00", false, "2012-01-05 18:00:00"},
		{"thu 22:00-02:00 Pacific/Apia", "2011-12-30 09:00:00", true, "2011-12-30 10:00:00"},
		{"", "2026-03-02 08:00:00", false, none},
	}
	for _, tt := range tests {
		var windows []Window
		for text := range strings.SplitSeq(tt.windows, ";") {
			if text != "" {
				windows = append(windows, at(t, text))
			}
		}
		now, err := time.Parse(time.DateTime, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		in, edge := nextEdge(now, windows)
		if got := edge.UTC().Format(time.DateTime); in != tt.in || got != tt.edge {
			t.Errorf("nextEdge(%s, %s) = %v until %s, want %v until %s", tt.now, tt.windows, in, got, tt.in, tt.edge)
		}
	}
}

// Every five minutes through a year with its two jumps, edges are where the clock
// on the wall says.
func TestEdgesAgreeWithTheClockOnTheWall(t *testing.T) {
	for _, text := range []string{"08:00-18:30 Europe/Lisbon", "mon-fri 22:00-06:00 America/New_York", "sat 00:00-24:00 Australia/Lord_Howe"} {
		w := at(t, text)
		s := Schedule{Windows: []Window{w}}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		in, edge := s.At(now)
		edges := 0
		for ; now.Year() == 2026; now = now.Add(5 * time.Minute) {
			if !now.Before(edge) {
				in, edge = s.At(now)
				edges++
			}
			local := now.In(w.Zone)
			minutes, day := 60*local.Hour()+local.Minute(), local.Weekday()
			want := w.From <= minutes && minutes < w.To
			if w.To < w.From {
				want = minutes >= w.From || minutes < w.To
				if minutes < w.To {
					day = (day + 6) % 7
				}
			}
			if want = want && (w.Days == [7]bool{} || w.Days[day]); in != want {
				t.Fatalf("%s: at %v in = %v, want %v", text, local, in, want)
			}
		}
		if edges < 100 {
			t.Errorf("%s: %d edges in a year", text, edges)
		}
	}
}

func TestAScheduleIsReadAndWritten(t *testing.T) {
	for _, text := range []string{"mon-fri 08:00-18:30 Europe/Lisbon", "08:00-24:00 UTC", "mon,sat,sun 22:00-06:00 UTC", "tue-thu,sat 00:00-00:01 UTC"} {
		if got := (Schedule{Windows: []Window{at(t, text)}}).String(); got != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, bad := range []string{"", "8:00", "24:01", "25:00", "08:60", "08.00", "-1:00", "08:00:00"} {
		if m, err := ParseClock(bad); err == nil {
			t.Errorf("ParseClock(%q) = %d", bad, m)
		}
	}
	for _, bad := range []string{"", "mo", "mon-", "-fri", "mon-fri-sun", "mon fri", "mon,"} {
		if d, err := ParseDays(bad); err == nil {
			t.Errorf("ParseDays(%q) = %v", bad, d)
		}
	}
}

// scheduled is an actor that is kept awake in windows and else sleeps after a
// minute. A bubble begins at 00:00 UTC on a saturday.
func scheduled(t *testing.T, name string, windows ...string) Actor {
	a := fake(name)
	a.Idle = time.Minute
	for _, w := range windows {
		a.KeepAwake.Windows = append(a.KeepAwake.Windows, at(t, w))
	}
	return a
}

func TestAnActorWithAWindowIsWokenAtItsStartAndIdlesAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, scheduled(t, "a", "08:00-18:30"))
		defer s.close()
		s.visit("a", time.Second) // outside it is like any other
		time.Sleep(10*time.Hour + 29*time.Minute)
		ride := s.ride("a", 0)
		time.Sleep(8 * time.Hour) // beyond the end
		s.wantState("a", router.Awake)
		ride.Done()
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		s.wantEvents("0s start a", "1m1s end a", "8h0m0s start a", "18h30m1s end a", "32h0m0s start a", "42h30m0s end a")
	})
}

func TestAWindowsEndFreesTheWorkerForTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day, night := scheduled(t, "day", "08:00-20:00"), scheduled(t, "night", "20:00-08:00")
		day.Idle, night.Idle = 0, 0
		s := newStage(t, 1, day, night, fake("other"))
		defer s.close()
		time.Sleep(9 * time.Hour)
		other := s.ask("other", 24*time.Hour)
		time.Sleep(15 * time.Hour)
		synctest.Wait()
		s.wantEvents("0s start night", "8h0m0s end night", "8h0m0s start day", "20h0m0s end day", "20h0m0s start night")
		if got := <-other; got.err == nil {
			t.Errorf("other was served after %v, by a worker that is kept", got.took)
		}
	})
}

func TestAReloadChangesTheScheduleOfARunningActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, scheduled(t, "a", "00:00-12:00"))
		defer s.close()
		time.Sleep(time.Hour)
		s.wantState("a", router.Awake)
		c := s.config
		c.Actors = []Actor{scheduled(t, "a", "00:00-12:00")}
		if got := s.apply(c); len(got) != 0 {
			t.Errorf("the same schedule again changes %q", got)
		}
		c.Actors = []Actor{scheduled(t, "a", "04:00-05:00", "06:00-07:00")}
		if got, want := fmt.Sprint(s.apply(c)), `[actor "a" has other times]`; got != want {
			t.Errorf("changes = %s, want %s", got, want)
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		s.wantEvents("0s start a", "1h0m0s end a", "4h0m0s start a", "5h0m0s end a", "6h0m0s start a", "7h0m0s end a")
	})
}

// A step of the clock is only noticed by looking.
func TestTheClockIsLookedAtEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, scheduled(t, "a", "08:00-18:30"))
		defer s.close()
		for range 600 {
			s.plane.mu.Lock()
			a := s.plane.actors["a"]
			if in := time.Until(a.alarmAt); a.alarmAt.IsZero() || in > time.Minute {
				t.Fatalf("after %v the clock is looked at in %v", time.Since(s.host.began), in)
			}
			s.plane.mu.Unlock()
			time.Sleep(71 * time.Second)
			synctest.Wait()
		}
	})
}

func TestAWindowThatEndsGivesUpThePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, scheduled(t, "a", "08:00-09:00"), fake("b"))
		defer s.close()
		ride := s.ride("b", time.Second)
		waiting := func() int { return s.plane.Snapshot().Pools[0].Waiting }
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		if n := waiting(); n != 1 {
			t.Fatalf("%d wait in the window, want the actor", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := waiting(); n != 0 {
			t.Errorf("%d wait after the window", n)
		}
		ride.Done()
		time.Sleep(time.Minute)
		s.wantState("b", router.Awake) // nobody wanted its worker
	})
}

func TestAReloadThatEndsKeepingGivesUpThePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 1, fake("a"), fake("b"))
		defer s.close()
		ride := s.ride("b", time.Second)
		c := s.config
		c.Actors = []Actor{kept("a"), fake("b")}
		s.apply(c)
		c.Actors = []Actor{fake("a"), fake("b")}
		s.apply(c)
		synctest.Wait()
		ride.Done()
		time.Sleep(time.Minute)
		s.wantState("b", router.Awake)
		s.wantEvents("0s start b")
	})
}

func TestAKeptActorThatTookLongToDieHasItsOwnWorkerBackAndNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 2, kept("a"), fake("b"))
		defer s.close()
		s.script("a", script{start: time.Second, stop: -1, undead: 5 * time.Second})
		time.Sleep(2 * time.Second)
		s.visit("b", time.Second)
		if err := s.plane.Sleep(t.Context(), "a"); err != nil { // grace, then long after KILL
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.wantState("a", router.Awake)
		s.wantState("b", router.Awake)
	})
}

func TestValidateSaysWhatIsWrongWithASchedule(t *testing.T) {
	for _, tt := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{Windows: []Window{{From: 480, To: 480}}}, `actor "a": is kept awake from 08:00 to 08:00, which is no time: for all day use 00:00 to 24:00`},
		{Schedule{Windows: []Window{{From: -1, To: 480}}}, "use 0 to 1440"},
		{Schedule{Windows: []Window{{From: 1440, To: 480}}}, "use 0 to 1440"},
		{Schedule{Windows: []Window{{From: 0, To: 1441}}}, "use 0 to 1440"},
		{Schedule{Always: true, Windows: []Window{{From: 0, To: 1}}}, "remove one of them"},
	} {
		a := fake("a")
		a.KeepAwake = tt.s
		err := (Config{Pools: []Pool{{Name: "pool", Workers: 1}}, Actors: []Actor{a}}).Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want an error that says %q", tt.s, err, tt.want)
		}
	}
}
