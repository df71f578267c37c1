package courtesy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// What identifies the state file, and what it may be.
const (
	stateProgram = "layover-jobs"
	stateVersion = 1
	maxStateFile = 64 << 20
)

// The names in the state folder.
const (
	stateName   = "state.json"
	newName     = "state.json.new"
	asideName   = "state.json.set-aside"
	lockName    = "lock"
	answersName = "answers" // a folder: one packed body per file, named by its entry's key
)

// errInUse is why a second process has no state folder.
var errInUse = errors.New("another process uses it")

// state is the state file. Times in it are relative to Saved: what was left of
// a pause, how old an answer was. The clock of the system is believed only in
// how much time has passed since Saved, and that never to be negative. So a
// clock that was set back makes no pause longer than it was.
type state struct {
	Program string                   `json:"program"`
	Version int                      `json:"version"`
	Saved   time.Time                `json:"saved"`
	Pauses  map[string]time.Duration `json:"pauses_left_ns,omitempty"`
	Answers []savedEntry             `json:"answers,omitempty"`
	Keeps   map[string][]savedItem   `json:"keeps,omitempty"`
}

type savedEntry struct {
	Age time.Duration `json:"age_ns"`
	entry
}

type savedItem struct {
	Key   string        `json:"key"`
	Value []byte        `json:"value"`
	Left  time.Duration `json:"left_ns"`
}

// longestAge is more than anything in the state is of use for.
const longestAge = 366 * 24 * time.Hour

// passed is the time since the state was saved, so bounded that it can be added.
func (s *state) passed(now time.Time) time.Duration {
	return min(max(0, now.Sub(s.Saved)), longestAge)
}

// store is the state folder, held by this process alone.
type store struct {
	dir  string
	root *os.Root
	lock *os.File
}

// openStore takes the folder dir, which it makes if it is missing. The error is
// errInUse, wrapped, if another process has it.
func openStore(dir string) (*store, error) {
	s := &store{dir: dir}
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		s.root.Close()
		return nil, err
	}
	return s, nil
}

func (s *store) take() error {
	info, err := s.root.Stat(".")
	if err != nil {
		return err
	}
	if err := ours(info); err != nil {
		return err
	}
	if err := s.root.Chmod(".", 0o700); err != nil {
		return err
	}
	if s.lock, err = s.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := lockFile(s.lock); err != nil {
		s.lock.Close()
		return err
	}
	if err := s.root.Mkdir(answersName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		s.lock.Close()
		return err
	}
	return nil
}

func (s *store) close() {
	s.lock.Close() // and with it the lock
	s.root.Close()
}

// load returns the saved state. One that cannot be used is set aside, and the
// error says so; the state is empty then, as it is when there was none.
func (s *store) load() (state, error) {
	st, err := s.read()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	why := fmt.Errorf("%s is of no use and was renamed to %s (delete it, or keep it to find out why): %w",
		filepath.Join(s.dir, stateName), asideName, err)
	if err := s.root.Rename(stateName, asideName); err != nil {
		why = fmt.Errorf("%s is of no use, and could not be set aside (%w): %w", filepath.Join(s.dir, stateName), err, why)
	}
	return state{}, why
}

func (s *store) read() (state, error) {
	var st state
	f, err := s.root.Open(stateName)
	if err != nil {
		return st, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return st, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxStateFile {
		return st, fmt.Errorf("it is no file of at most %d bytes", maxStateFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxStateFile))
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return state{}, fmt.Errorf("it cannot be read: %w", err)
	}
	if st.Program != stateProgram || st.Version != stateVersion {
		return state{}, fmt.Errorf("it is version %d of %q, and this program reads version %d of %q",
			st.Version, st.Program, stateVersion, stateProgram)
	}
	return st, nil
}

// save replaces the state file in one step, and returns its size.
func (s *store) save(st state) (size int, err error) {
	st.Program, st.Version = stateProgram, stateVersion
	text, err := json.Marshal(st)
	if err != nil {
		return 0, err
	}
	if err := s.write(newName, text); err != nil {
		return len(text), err
	}
	return len(text), s.root.Rename(newName, stateName)
}

func (s *store) write(name string, text []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// The bodies of answers.

func (s *store) readBody(name string) ([]byte, error) {
	return s.root.ReadFile(filepath.Join(answersName, name))
}

// writeBody does not wait for the disk: a torn body is found out by its sum.
func (s *store) writeBody(name string, packed []byte) error {
	return s.root.WriteFile(filepath.Join(answersName, name), packed, 0o600)
}

func (s *store) removeBody(name string) error {
	err := s.root.Remove(filepath.Join(answersName, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweep removes the bodies that are not wanted, as a killed process may leave.
func (s *store) sweep(wanted func(name string) bool) error {
	files, err := fs.ReadDir(s.root.FS(), answersName)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if !wanted(f.Name()) {
			errs = append(errs, s.removeBody(f.Name()))
		}
	}
	return errors.Join(errs...)
}
