package courtesy

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// The state file is written whole. saveEvery is the least time between two
// writes, and for each saveBytes of it, so that a large one that changes all the
// time does not wear out the disk: what it may hold at most, 6.5 MB, takes 50 ms
// to write and is written every six seconds.
const (
	saveEvery = time.Second
	saveBytes = 1 << 20
)

// saver writes the state after changes.
type saver struct {
	c     *Courtesy
	store *store
	dirty chan struct{} // 1: something has changed since it was last taken
	quit  chan struct{}
	done  chan struct{} // closed when run has returned
	once  sync.Once

	found string // what was wrong with the folder when it was opened

	mu      sync.Mutex
	problem string // why the last write failed
	saved   time.Time
}

// openState takes the folder dir, restores what is in it, and begins to write
// it. Nothing about a folder is fatal.
func (c *Courtesy) openState(dir string) {
	store, err := openStore(dir)
	if err != nil {
		c.problem = fmt.Sprintf("state folder %s: %v: pauses and answers are known to this process only, and until it ends", dir, err)
		c.log.Warn("working without the state folder", "folder", dir, "reason", err)
		return
	}
	c.saver = &saver{c: c, store: store, dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	st, err := store.load()
	if err != nil {
		c.saver.found = err.Error()
		c.log.Warn("beginning with an empty state", "folder", dir, "reason", err)
	}
	c.cache.read = store.readBody
	c.restore(st, time.Now())
	if err := store.sweep(c.cache.has); err != nil {
		c.log.Warn("old answers cannot be removed", "folder", dir, "reason", err)
	}
	go c.saver.run() // close waits for it
}

// restore takes over what st has, as far as it makes sense.
func (c *Courtesy) restore(st state, now time.Time) {
	passed := st.passed(now)
	for host := range st.Pauses {
		st.Pauses[host] -= passed
	}
	c.lanes.restore(st.Pauses)
	for _, saved := range st.Answers {
		if e := saved.entry; saved.sane() {
			e.At = now.Add(-saved.Age - passed)
			e.saved = e.Packed > 0
			c.cache.put(&e, now)
		}
	}
	for name, items := range st.Keeps {
		k := c.Keep(name)
		for _, i := range items {
			if left := min(i.Left, maxTTL) - passed; left > 0 {
				k.put(item{i.Key, i.Value, now.Add(left)})
			}
		}
	}
}

// sane reports whether an entry can be one that was saved.
func (s *savedEntry) sane() bool {
	for _, d := range []time.Duration{s.Age, s.Fresh, s.Least} {
		if d < 0 || d > longestAge {
			return false
		}
	}
	name, err := hex.DecodeString(s.Key)
	return err == nil && len(name) == 32 && s.Packed >= 0 && s.Size >= 0 && s.Size <= 1<<32
}

// snapshot is the state as it is now, without answers.
func (c *Courtesy) snapshot(now time.Time) state {
	st := state{Saved: now.Round(0).UTC(), Pauses: c.lanes.left(), Keeps: make(map[string][]savedItem)}
	c.keepsMu.Lock()
	defer c.keepsMu.Unlock()
	for name, k := range c.keeps {
		for _, i := range k.all(now) {
			st.Keeps[name] = append(st.Keeps[name], savedItem{i.Key, i.Value, i.Until.Sub(now)})
		}
	}
	return st
}

// wake has the state written, a second after it was last written at the
// earliest.
func (s *saver) wake() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *saver) run() {
	defer close(s.done)
	for {
		size := 0
		select {
		case <-s.dirty:
			size = s.save()
		case <-s.quit:
			s.save()
			return
		}
		select {
		case <-time.After(max(saveEvery, saveEvery*time.Duration(size)/saveBytes)):
		case <-s.quit: // the next round sees it too
		}
	}
}

// save writes the state, and notes and says how that went. It returns the size
// of the state file.
func (s *saver) save() (size int) {
	now := time.Now()
	size, err := s.write(now)
	s.mu.Lock()
	before := s.problem
	s.problem = ""
	if err != nil {
		s.problem = err.Error()
	} else {
		s.saved = now
	}
	s.mu.Unlock()
	if err != nil && before == "" {
		s.c.log.Warn("the state cannot be written; trying on", "folder", s.store.dir, "reason", err)
	}
	return size
}

// write writes bodies before the file that refers to them.
func (s *saver) write(now time.Time) (size int, err error) {
	failed := func(e error) bool {
		if err == nil {
			err = e
		}
		return e != nil
	}
	entries, bodies, dropped := s.c.cache.unsaved(now)
	for _, name := range dropped {
		failed(s.store.removeBody(name))
	}
	for _, e := range bodies {
		if !failed(s.store.writeBody(e.Key, e.body)) {
			s.c.cache.bodySaved(e)
		}
	}
	st := s.c.snapshot(now)
	for _, e := range entries {
		st.Answers = append(st.Answers, savedEntry{Age: age(e.At, now), entry: *e})
	}
	size, saveErr := s.store.save(st)
	failed(saveErr)
	return size, err
}

func (s *saver) describe(to *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Folder, to.Problem, to.Saved = s.store.dir, cmp.Or(s.problem, s.found), s.saved
}

func (s *saver) close() error {
	s.once.Do(func() {
		close(s.quit)
		<-s.done
		s.store.close()
	})
	return nil
}
