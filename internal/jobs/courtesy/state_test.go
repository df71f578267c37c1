package courtesy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"layover/internal/jobs/board"
)

// restarted closes c and opens another one on its folder.
func restarted(t *testing.T, p *play, c *Courtesy, folder string) *Courtesy {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	next := p.open(Options{Folder: folder})
	t.Cleanup(func() { next.Close() })
	return next
}

// edited changes the state file of a folder that nobody has.
func edited(t *testing.T, folder string, edit func(st *state)) {
	t.Helper()
	name := filepath.Join(folder, stateName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		t.Fatal(err)
	}
	edit(&st)
	if text, err = json.Marshal(st); err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func limitedFor(seconds string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { status(w, 429, "Retry-After", seconds) }
}

func TestJ15_APauseSurvivesARestart(t *testing.T) {
	synctest.Test(t, on(limitedFor("3600"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		get(c, acme(), time.Minute, jobsURL)
		during(10 * time.Minute)
		c = restarted(t, p, c, folder)
		_, err := get(c, acme(), time.Minute, jobsURL)
		if trouble := wantTrouble(t, err, board.RateLimited); time.Until(trouble.RetryAt) != 50*time.Minute {
			t.Errorf("it may be asked again in %v, want 50m", time.Until(trouble.RetryAt))
		}
		p.wantAts(0)
		// One that is not asked in between keeps it too.
		c = restarted(t, p, restarted(t, p, c, folder), folder)
		_, err = get(c, acme(), time.Minute, jobsURL)
		wantTrouble(t, err, board.RateLimited)
		during(50*time.Minute + time.Nanosecond)
		get(c, acme(), time.Second, jobsURL)
		p.wantAts(0, time.Hour+time.Nanosecond)
	}))
}

func TestAPauseIsBelievedForADayAtMostAndNoClockMakesItEndless(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(st *state, now time.Time)
		want time.Duration
	}{
		{"as it was", func(*state, time.Time) {}, time.Hour},
		{"saved in the future: the clock was set back by a year", func(st *state, now time.Time) { st.Saved = now.AddDate(1, 0, 0) }, time.Hour},
		{"half an hour ago", func(st *state, now time.Time) { st.Saved = now.Add(-30 * time.Minute) }, 30 * time.Minute},
		{"a century long", func(st *state, _ time.Time) { st.Pauses["acme.example"] = 100 * 365 * 24 * time.Hour }, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, on(limitedFor("3600"), func(t *testing.T, p *play, _ *Courtesy) {
				folder := t.TempDir()
				c := p.open(Options{Folder: folder})
				get(c, acme(), time.Minute, jobsURL)
				c.Close()
				edited(t, folder, func(st *state) { tt.edit(st, time.Now()) })
				c = restarted(t, p, c, folder)
				_, err := get(c, acme(), time.Minute, jobsURL)
				if trouble := wantTrouble(t, err, board.RateLimited); time.Until(trouble.RetryAt) != tt.want {
					t.Errorf("it may be asked again in %v, want %v", time.Until(trouble.RetryAt), tt.want)
				}
			}))
		})
	}
}

func TestAnswersSurviveARestart(t *testing.T) {
	var conditions []string
	synctest.Test(t, on(func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match"))
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		status(w, 200, "Etag", `"v1"`, "Content-Type", "application/json")
		w.Write([]byte(`{"jobs":[]}`))
	}, func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		mustGet(t, c, acme(), jobsURL)
		c.Close()
		during(30 * time.Second)
		c = restarted(t, p, c, folder)
		a := mustGet(t, c, acme(), jobsURL)
		if string(a.Body) != `{"jobs":[]}` || a.Header.Get("Content-Type") != "application/json" || time.Since(a.At) != 30*time.Second {
			t.Errorf("after the restart: %q, %v, of %v ago; want the answer of 30s ago", a.Body, a.Header, time.Since(a.At))
		}
		p.wantAts(0)
		during(time.Minute)
		c = restarted(t, p, c, folder)
		if a := mustGet(t, c, acme(), jobsURL); string(a.Body) != `{"jobs":[]}` {
			t.Errorf("after the 304: %q", a.Body)
		}
		p.wantAts(0, 90*time.Second)
		if conditions[1] != `"v1"` {
			t.Errorf("it was asked with the condition %q, want the kept one's tag", conditions[1])
		}
		c = restarted(t, p, c, folder)
		mustGet(t, c, acme(), jobsURL)
		p.wantAts(0, 90*time.Second)
	}))
}

func TestWithinLeastNothingIsAskedAfterARestartEither(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, file string){
		"whole":   func(*testing.T, string) {},
		"lost":    func(t *testing.T, file string) { os.Remove(file) },
		"torn":    func(t *testing.T, file string) { os.Truncate(file, 10) },
		"changed": func(t *testing.T, file string) { os.WriteFile(file, []byte("something else"), 0o600) },
		"another": func(t *testing.T, file string) {
			os.WriteFile(file, newEntry("", acme(), board.Answer{Body: []byte("two")}).body, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
				folder := t.TempDir()
				b := acme()
				b.Least = time.Hour
				c := p.open(Options{Folder: folder})
				mustGet(t, c, b, jobsURL)
				c.Close()
				files, _ := filepath.Glob(filepath.Join(folder, answersName, "*"))
				if len(files) != 1 {
					t.Fatalf("bodies %v, want one", files)
				}
				harm(t, files[0])
				c = restarted(t, p, c, folder)
				a, err := get(c, b, time.Minute, jobsURL)
				if name == "whole" { // the others have lost it
					if err != nil || string(a.Body) != "one" {
						t.Errorf("%q, %v; want the kept answer", a.Body, err)
					}
				} else if trouble := wantTrouble(t, err, board.RateLimited); time.Until(trouble.RetryAt) != time.Hour {
					t.Errorf("it may be asked again in %v, want 1h", time.Until(trouble.RetryAt))
				}
				during(time.Hour)
				mustGet(t, c, b, jobsURL)
				p.wantAts(0, time.Hour)
			}))
		})
	}
}

// A kill costs the changes of the last second at most: they are written at
// once, and then once a second while there are more.
func TestAChangeIsWrittenWithinASecond(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		began := time.Now()
		c := p.open(Options{Folder: t.TempDir()})
		defer c.Close()
		k := c.Keep("cursors")
		want := func(after time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := c.Stats().Saved.Sub(began); got != after {
				t.Errorf("after %v: last saved at %v, want %v", time.Since(began), got, after)
			}
		}
		during(3 * time.Second)
		k.Put("a", nil, time.Hour)
		want(3 * time.Second)
		for range 8 {
			during(100 * time.Millisecond)
			k.Put("a", nil, time.Hour)
			want(3 * time.Second)
		}
		during(200 * time.Millisecond)
		want(4 * time.Second)
		during(time.Minute)
		want(4 * time.Second)
	}))
}

func TestALargeStateIsWrittenMoreSeldom(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		dir := t.TempDir()
		c := p.open(Options{Folder: dir})
		defer c.Close()
		k := c.Keep("cursors")
		for i := range 3 {
			k.Put(fmt.Sprint(i), make([]byte, maxItemBytes-1), time.Hour)
		}
		during(10 * time.Second)
		k.Put("a", nil, time.Hour)
		synctest.Wait()
		first := c.Stats().Saved
		info, err := os.Stat(filepath.Join(dir, stateName))
		if err != nil || !first.Equal(time.Now()) {
			t.Fatalf("saved at %v, %v", first, err)
		}
		k.Put("b", nil, time.Hour)
		during(time.Minute)
		want := time.Duration(info.Size()) * time.Second / (1 << 20)
		if got := c.Stats().Saved.Sub(first); got != want || want < 4*time.Second {
			t.Errorf("a file of %d bytes was written again after %v, want %v", info.Size(), got, want)
		}
	}))
}

func TestWhatWasWrittenIsThereAfterAKill(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder, after := t.TempDir(), t.TempDir()
		c := p.open(Options{Folder: folder})
		defer c.Close()
		mustGet(t, c, acme(), jobsURL)
		c.Keep("cursors").Put("a", []byte("A"), time.Hour)
		during(time.Second)
		// What a kill leaves is what is in the folder now.
		if err := os.CopyFS(after, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(after, newName), []byte("half a sta"), 0o600)
		os.WriteFile(filepath.Join(after, answersName, "stray"), []byte("x"), 0o600)
		next := p.open(Options{Folder: after})
		defer next.Close()
		mustGet(t, next, acme(), jobsURL)
		p.wantAts(0)
		if v, ok := next.Keep("cursors").Get("a"); !ok || string(v) != "A" {
			t.Errorf("kept %q, %v; want A", v, ok)
		}
		if _, err := os.Stat(filepath.Join(after, answersName, "stray")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a body that nothing refers to: %v, want it gone", err)
		}
		if problem := next.Stats().Problem; problem != "" {
			t.Errorf("problem %q, want none", problem)
		}
	}))
}

func TestASecondProcessWorksFromMemoryAndSaysSo(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		first := p.open(Options{Folder: folder})
		mustGet(t, first, acme(), jobsURL)
		var log bytes.Buffer
		second := p.open(Options{Folder: folder, Log: slog.New(slog.NewTextHandler(&log, nil))})
		mustGet(t, second, acme(), jobsURL)
		p.wantAts(0, 0)
		if s := second.Stats(); s.Folder != "" || !strings.Contains(s.Problem, folder) || !strings.Contains(s.Problem, "another process uses it") {
			t.Errorf("folder %q, problem %q; want no folder, and why", s.Folder, s.Problem)
		}
		if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), folder) {
			t.Errorf("log %q, want a warning with the folder", log.String())
		}
		second.Close()
		first.Close()
		third := p.open(Options{Folder: folder})
		defer third.Close()
		mustGet(t, third, acme(), jobsURL)
		p.wantAts(0, 0)
		if s := third.Stats(); s.Folder != folder || s.Problem != "" {
			t.Errorf("folder %q, problem %q; want the folder of the first", s.Folder, s.Problem)
		}
	}))
}

func TestAStateThatIsOfNoUseIsSetAside(t *testing.T) {
	whole, _ := json.Marshal(state{Program: stateProgram, Version: stateVersion})
	for name, text := range map[string]string{
		"empty":           "",
		"cut":             string(whole[:len(whole)-5]),
		"not JSON":        "\x00\x01\x02",
		"another version": strings.Replace(string(whole), `"version":1`, `"version":2`, 1),
		"another program": strings.Replace(string(whole), stateProgram, "other", 1),
		"another shape":   `{"program":"layover-jobs","version":1,"pauses_left_ns":[1,2]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
				folder := t.TempDir()
				file := filepath.Join(folder, stateName)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				c := p.open(Options{Folder: folder, Log: slog.New(slog.NewTextHandler(&log, nil))})
				mustGet(t, c, acme(), jobsURL)
				if problem := c.Stats().Problem; !strings.Contains(problem, file) || !strings.Contains(problem, asideName) {
					t.Errorf("problem %q, want it to name the file and where it is now", problem)
				}
				if !strings.Contains(log.String(), asideName) {
					t.Errorf("log %q, want where the file is now", log.String())
				}
				if got, _ := os.ReadFile(filepath.Join(folder, asideName)); string(got) != text {
					t.Errorf("set aside %q, want %q", got, text)
				}
				c = restarted(t, p, c, folder)
				mustGet(t, c, acme(), jobsURL)
				p.wantAts(0)
			}))
		})
	}
}

func TestAStateFileThatIsTooLargeIsNotRead(t *testing.T) {
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, stateName))
	if err != nil {
		t.Fatal(err)
	}
	f.Truncate(maxStateFile + 1)
	f.Close()
	c, err := New(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if problem := c.Stats().Problem; !strings.Contains(problem, fmt.Sprint(maxStateFile)) {
		t.Errorf("problem %q, want the limit in it", problem)
	}
}

func TestTheFolderIsForItsOwnerAlone(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := filepath.Join(t.TempDir(), "new", "folder")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		c := p.open(Options{Folder: folder})
		mustGet(t, c, acme(), jobsURL)
		c.Close()
		n := 0
		filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			info, _ := d.Info()
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if n++; info.Mode().Perm() != want {
				t.Errorf("%s has the mode %#o, want %#o", path, info.Mode().Perm(), want)
			}
			return err
		})
		if n != 5 {
			t.Errorf("%d files and folders, want 5: the folder, lock, state, answers, and one in it", n)
		}
	}))
}

func TestAFolderThatCannotBeUsedIsNotFatal(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		file := filepath.Join(t.TempDir(), "file")
		os.WriteFile(file, nil, 0o600)
		c := p.open(Options{Folder: filepath.Join(file, "below")})
		defer c.Close()
		mustGet(t, c, acme(), jobsURL)
		mustGet(t, c, acme(), jobsURL)
		p.wantAts(0)
		if s := c.Stats(); s.Folder != "" || s.Problem == "" {
			t.Errorf("folder %q, problem %q; want no folder, and why", s.Folder, s.Problem)
		}
	}))
}

// What cannot be written is said once, and kept in memory.
func TestAFolderThatVanishesIsSaidOnce(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := filepath.Join(t.TempDir(), "folder")
		var log bytes.Buffer
		c := p.open(Options{Folder: folder, Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer c.Close()
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		k := c.Keep("cursors")
		for i := range 5 {
			mustGet(t, c, acme(), fmt.Sprint(jobsURL, "?", i))
			k.Put("a", []byte("A"), time.Hour)
			during(2 * time.Second)
			mustGet(t, c, acme(), fmt.Sprint(jobsURL, "?", i))
		}
		if n := len(p.ats()); n != 5 {
			t.Errorf("%d requests, want 5: the answers are kept in memory", n)
		}
		if n := strings.Count(log.String(), "cannot be written"); n != 1 {
			t.Errorf("said %d times that the state cannot be written, want once:\n%s", n, log.String())
		}
		if c.Stats().Problem == "" {
			t.Error("Stats has no problem")
		}
	}))
}

func TestWhatMustNotBeStoredIsNotWrittenDown(t *testing.T) {
	synctest.Test(t, on(func(w http.ResponseWriter, _ *http.Request) {
		status(w, 200, "Cache-Control", "private, no-store")
		w.Write([]byte("one"))
	}, func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		mustGet(t, c, acme(), jobsURL)
		during(2 * time.Second)
		mustGet(t, c, acme(), jobsURL)
		p.wantAts(0) // it is fresh in memory
		c.Close()
		if files, _ := filepath.Glob(filepath.Join(folder, answersName, "*")); len(files) != 0 {
			t.Errorf("bodies %v, want none", files)
		}
		edited(t, folder, func(st *state) {
			if len(st.Answers) != 0 {
				t.Errorf("%d answers are saved, want none", len(st.Answers))
			}
		})
		c = restarted(t, p, c, folder)
		mustGet(t, c, acme(), jobsURL)
		p.wantAts(0, 2*time.Second)
	}))
}

func TestWhatIsDroppedIsRemovedFromTheFolder(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder, CacheBytes: 3*entryCost + 200})
		defer c.Close()
		for i := range 10 {
			mustGet(t, c, acme(), fmt.Sprint(jobsURL, "?", i))
			during(2 * time.Second)
		}
		files, _ := filepath.Glob(filepath.Join(folder, answersName, "*"))
		if n := c.Stats().Cache.Entries; n != 3 || len(files) != n {
			t.Errorf("%d entries and %d bodies, want 3 of each", n, len(files))
		}
	}))
}

func TestAKeepForgetsWhatIsOverAndTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeep(func() {})
		k.Put("short", []byte("1"), time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		if _, ok := k.Get("short"); !ok {
			t.Error("it is gone before its time")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := k.Get("short"); ok {
			t.Error("it is there after its time")
		}
		k.Put("long", nil, 365*24*time.Hour)
		time.Sleep(maxTTL)
		if _, ok := k.Get("long"); ok {
			t.Error("it is there after the longest time")
		}
		for i := range maxItems + 1 {
			k.Put(fmt.Sprint(i), nil, time.Hour)
		}
		_, first := k.Get("0")
		_, second := k.Get("1")
		if first || !second {
			t.Errorf("of one too many the first is there: %v, the second: %v; want only the second", first, second)
		}
		k.Put("1", make([]byte, maxItemBytes), time.Hour)
		if _, ok := k.Get("1"); ok {
			t.Error("of a value that is too large something is kept")
		}
		value := []byte("a")
		k.Put("copy", value, time.Hour)
		value[0] = 'b'
		got, _ := k.Get("copy")
		got[0] = 'c'
		if got, _ := k.Get("copy"); string(got) != "a" {
			t.Errorf("what is kept became %q with what was put or got", got)
		}
		for i := range 8 {
			k.Put(fmt.Sprint("big", i), make([]byte, maxItemBytes-10), time.Hour)
		}
		if k.bytes > maxKeepBytes {
			t.Errorf("it holds %d bytes, want %d at most", k.bytes, maxKeepBytes)
		}
		if _, ok := k.Get("big7"); !ok {
			t.Error("the last one put is gone")
		}
	})
}

func TestAKeepSurvivesARestartWithItsTimes(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		if one, other := c.Keep("cursors"), c.Keep("other"); one != c.Keep("cursors") || one == other {
			t.Error("a name is not one Keep")
		}
		c.Keep("cursors").Put("long", []byte("L"), time.Hour)
		c.Keep("cursors").Put("short", []byte("S"), time.Minute)
		c.Keep("other").Put("long", []byte("O"), time.Hour)
		c.Close()
		during(time.Minute)
		c = restarted(t, p, c, folder)
		l, long := c.Keep("cursors").Get("long")
		_, short := c.Keep("cursors").Get("short")
		o, _ := c.Keep("other").Get("long")
		if !long || short || string(l) != "L" || string(o) != "O" {
			t.Errorf("long %q, short there: %v, other %q; want L, no, O", l, short, o)
		}
		during(59*time.Minute - time.Nanosecond)
		if _, ok := c.Keep("cursors").Get("long"); !ok {
			t.Error("the long one is gone before its time")
		}
		during(time.Nanosecond)
		if _, ok := c.Keep("cursors").Get("long"); ok {
			t.Error("the long one is there after its time")
		}
	}))
}

func FuzzRestore(f *testing.F) {
	whole, _ := json.Marshal(state{Program: stateProgram, Version: stateVersion, Saved: time.Unix(1e9, 0),
		Pauses: map[string]time.Duration{"acme.example": time.Hour},
		Keeps:  map[string][]savedItem{"cursors": {{"a", []byte("A"), time.Hour}}},
		Answers: []savedEntry{{Age: time.Minute, entry: entry{Key: strings.Repeat("ab", 32), Fresh: time.Hour, Packed: 10, Size: 20, Sum: "x"}},
			{Age: -1, entry: entry{Key: "../../x", Least: 1 << 62, Packed: -1}}}})
	f.Add(string(whole))
	f.Add(`{"answers":[{"age_ns":2,"key":"` + strings.Repeat("0", 64) + `","least":3}]}`)
	f.Add(`{"saved":"9999-01-01T00:00:00Z","keeps":{"cursors":[{"key":"a","left_ns":9223372036854775807}]}}`)
	f.Add(`{"program":"layover-jobs","version":1,"saved":"9999-01-01T00:00:00Z","pauses_left_ns":{"a":9223372036854775807,"b":-9223372036854775808}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var st state
		if json.Unmarshal([]byte(text), &st) != nil {
			return
		}
		c, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		c.restore(st, now)
		for host, left := range c.lanes.left() {
			if left <= 0 || left > maxPause {
				t.Errorf("%q is paused for %v", host, left)
			}
		}
		if c.cache.bytes < 0 || c.cache.bytes > c.cache.limit {
			t.Errorf("the cache has %d bytes", c.cache.bytes)
		}
		all, _, _ := c.cache.unsaved(now)
		for _, e := range all {
			if a := age(e.At, now); a < 0 {
				t.Errorf("an answer is %v old", a)
			}
		}
		for _, k := range c.keeps {
			for _, i := range k.all(now) {
				if left := i.Until.Sub(now); left > maxTTL {
					t.Errorf("a value is kept for %v", left)
				}
			}
		}
	})
}

// A process that is killed gives up its lock with its life, and what it had
// written is there for the next one.
func TestAKilledProcessLeavesItsStateAndNotItsLock(t *testing.T) {
	folder := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKeepUntilKilled$")
	child.Env = append(os.Environ(), childFolder+"="+folder)
	in, err := child.StdinPipe() // it ends with this process, at the latest
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "saved\n" {
		t.Errorf("the child says %q, %v", line, err)
	}
	beside, err := New(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	beside.Close()
	if problem := beside.Stats().Problem; !strings.Contains(problem, errInUse.Error()) {
		t.Errorf("beside the child the problem is %q, want that the folder is in use", problem)
	}
	child.Process.Kill()
	child.Wait() // that it was killed is no news
	after, err := New(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	value, _ := after.Keep("cursors").Get("a")
	if problem := after.Stats().Problem; problem != "" || string(value) != "A" {
		t.Errorf("after the kill: %q, problem %q; want A and none", value, problem)
	}
}

const childFolder = "COURTESY_TEST_FOLDER"

// TestKeepUntilKilled is the child of the test above.
func TestKeepUntilKilled(t *testing.T) {
	folder := os.Getenv(childFolder)
	if folder == "" {
		t.Skip("it is no test by itself")
	}
	c, err := New(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	c.Keep("cursors").Put("a", []byte("A"), time.Hour)
	for c.Stats().Saved.IsZero() {
		runtime.Gosched()
	}
	fmt.Println("saved")
	io.Copy(io.Discard, os.Stdin)
}

// What is changed right before Close is written, too.
func TestCloseWritesTheLastChange(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		for _, key := range []string{"a", "b"} {
			c.Keep("cursors").Put(key, nil, time.Hour)
			synctest.Wait() // the first is being written at once, the second waits
		}
		c = restarted(t, p, c, folder)
		if _, ok := c.Keep("cursors").Get("b"); !ok {
			t.Error("the second change is lost")
		}
	}))
}

func TestTheOrderOfUseSurvivesARestart(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		open := func() *Courtesy { return p.open(Options{Folder: folder, CacheBytes: 2*entryCost + 200}) }
		c := open()
		mustGet(t, c, acme(), jobsURL+"?1")
		mustGet(t, c, acme(), jobsURL+"?2")
		mustGet(t, c, acme(), jobsURL+"?1")
		c.Keep("cursors").Put("a", nil, time.Hour) // a hit alone is no reason to write
		c.Close()
		c = open()
		defer c.Close()
		mustGet(t, c, acme(), jobsURL+"?3") // 2 goes
		n := len(p.ats())
		mustGet(t, c, acme(), jobsURL+"?1")
		if len(p.ats()) != n {
			t.Error("the one used last was dropped")
		}
	}))
}

func TestWhatIsOfNoMoreUseIsNotWrittenDown(t *testing.T) {
	synctest.Test(t, on(body("one"), func(t *testing.T, p *play, _ *Courtesy) {
		folder := t.TempDir()
		c := p.open(Options{Folder: folder})
		mustGet(t, c, acme(), jobsURL)
		during(time.Minute)
		c.Keep("cursors").Put("a", nil, time.Hour)
		c.Close()
		edited(t, folder, func(st *state) {
			if len(st.Answers) != 0 {
				t.Errorf("%d answers that are too old to be given and cannot be revalidated are saved", len(st.Answers))
			}
		})
	}))
}

// An answer that is replaced while its body is being written leaves no body
// behind, and the new one is written.
func TestABodyThatIsReplacedWhileItIsWrittenIsDropped(t *testing.T) {
	c := newCache(1 << 20)
	b, now := acme(), time.Now()
	first, second := newEntry("k", b, board.Answer{At: now, Body: []byte("1")}), newEntry("k", b, board.Answer{At: now, Body: []byte("2")})
	c.put(first, now)
	if _, bodies, _ := c.unsaved(now); len(bodies) != 1 || bodies[0] != first {
		t.Fatalf("to be written: %v, want the first", bodies)
	}
	c.put(second, now)
	c.bodySaved(first)
	_, bodies, dropped := c.unsaved(now)
	if len(bodies) != 1 || bodies[0] != second || len(dropped) != 1 {
		t.Errorf("to be written: %v, to be removed: %v; want the second, and the first's", bodies, dropped)
	}
}

func TestAPauseIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, on(limitedFor("3600"), func(t *testing.T, p *play, _ *Courtesy) {
		c := p.open(Options{Folder: t.TempDir()})
		defer c.Close()
		get(c, acme(), time.Minute, jobsURL)
		synctest.Wait()
		if saved := c.Stats().Saved; !saved.Equal(time.Now()) {
			t.Errorf("last saved at %v, want now, %v", saved, time.Now())
		}
	}))
}
