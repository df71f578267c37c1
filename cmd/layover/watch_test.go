package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A text counts when two looks in a row find it: no sooner, and once.
func TestWatchTellsOfATextThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var text, tried atomic.Value
		text.Store("one")
		tried.Store("one")
		changed := make(chan struct{}, 1)
		load := func(of *atomic.Value) func() string { return func() string { return of.Load().(string) } }
		go watch(ctx, load(&text), load(&tried), changed)
		told := func(after time.Duration) bool { // and tries what is there
			time.Sleep(after)
			synctest.Wait()
			select {
			case <-changed:
				tried.Store(text.Load())
				return true
			default:
				return false
			}
		}
		if told(10 * time.Second) {
			t.Error("told of a text that is as before")
		}
		text.Store("half of tw")
		if told(time.Second) {
			t.Error("told of a text that was seen once")
		}
		text.Store("two")
		if told(time.Second) {
			t.Error("told of a text that was seen once, after another")
		}
		if !told(time.Second) {
			t.Error("not told of a text that was seen twice")
		}
		if told(10 * time.Second) {
			t.Error("told twice of one text")
		}
		text.Store("one")
		if !told(2 * time.Second) {
			t.Error("not told of a text that came back")
		}
		tried.Store("no such file") // in the midst of a change, say by HUP
		if !told(time.Second) {
			t.Error("not told of a text that is there while another one was tried last")
		}
		text.Store("three")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		text.Store("four")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !told(0) || told(0) {
			t.Error("two changes that nobody took are not told once")
		}
	})
}

// files are ways in which a configuration is replaced: each returns the name
// to serve, and what replaces its text.
var files = map[string]func(t *testing.T, folder, text string) (name string, replace func(text string)){
	"written in place": func(t *testing.T, folder, text string) (string, func(string)) {
		name := filepath.Join(folder, "layover.yaml")
		put := func(text string) { writeFile(t, name, text) }
		put(text)
		return name, put
	},
	"renamed over, as editors do": func(t *testing.T, folder, text string) (string, func(string)) {
		name := filepath.Join(folder, "layover.yaml")
		put := func(text string) {
			writeFile(t, name+"~", text)
			if err := os.Rename(name+"~", name); err != nil {
				t.Fatal(err)
			}
		}
		put(text)
		return name, put
	},
	"behind a link of a folder, as Kubernetes mounts it": func(t *testing.T, folder, text string) (string, func(string)) {
		put := func(text string) {
			version, err := os.MkdirTemp(folder, "..v")
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(version, "layover.yaml"), text)
			link := filepath.Join(folder, "..data")
			if err := os.Symlink(filepath.Base(version), link+"_tmp"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(link+"_tmp", link); err != nil {
				t.Fatal(err)
			}
		}
		put(text)
		name := filepath.Join(folder, "layover.yaml")
		if err := os.Symlink(filepath.Join("..data", "layover.yaml"), name); err != nil {
			t.Fatal(err)
		}
		return name, put
	},
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachWayToReplaceAFileIsSeen(t *testing.T) {
	for way, begin := range files {
		t.Run(way, func(t *testing.T) {
			name, replace := begin(t, t.TempDir(), "one")
			before := digest(readAgain(name))
			replace("two")
			if now := digest(readAgain(name)); now == before {
				t.Error("the look finds nothing new")
			}
			replace("one")
			if now := digest(readAgain(name)); now != before {
				t.Error("the look does not find the first text again")
			}
		})
	}
}

func TestR74_AFileThatChangesIsReloadedByItself(t *testing.T) {
	rest := byName + "actors:\n" + testActor("a", 0, "")
	p := serving(t, t.TempDir(), rest)
	p.write("lot: 9\n" + rest)
	until(t, "the reload", func() bool { return p.logged("lot is 9 spots, before 1024 spots") })
	p.write("lot: nine\n" + rest)
	until(t, "the reload to be refused", func() bool { return p.logged("the configuration in force stays") })
	if err := os.Remove(filepath.Join(p.folder, "f.yaml")); err != nil {
		t.Fatal(err)
	}
	until(t, "the missing file to be told", func() bool { return p.logged("the configuration in force stays", "no such file") })
	p.write("lot: 8\n" + rest)
	until(t, "the reload", func() bool { return p.logged("lot is 8 spots, before 9 spots") })
	p.served("a.test")
}

func TestR74_APipeInPlaceOfTheFileHoldsUpNoStop(t *testing.T) {
	rest := byName + "actors:\n" + testActor("a", 0, "")
	p := serving(t, t.TempDir(), rest)
	name := filepath.Join(p.folder, "f.yaml")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	until(t, "the pipe to be told", func() bool { return p.logged("the configuration in force stays", "no regular file") })
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	p.write("lot: 8\n" + rest)
	p.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return p.logged("lot is 8 spots") })
	p.served("a.test")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}
