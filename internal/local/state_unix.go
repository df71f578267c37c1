//go:build unix

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// folder is the state folder. In it, lock is held by the plane that has the
// folder and says who that is; actor-NAME.json says what runs for an actor.
type folder struct {
	dir     string
	root    *os.Root // dir, as it was checked: whatever its path leads to later
	lock    *os.File
	private bool // made for this plane alone
}

// owner is the content of the lock file.
type owner struct {
	PID  int      `json:"pid"`
	Runs []string `json:"runs"` // whose processes may be there: the owner's, and those it has yet to end
}

// record is the content of an actor's file.
type record struct {
	PID      int    `json:"pid"` // of the main process, and of its group
	Identity string `json:"identity"`
	Marker   string `json:"marker"`
}

// openFolder takes dir for run, and ends what runs before it left there. An
// empty dir is a new temporary one.
func openFolder(dir, run string, log *slog.Logger) (*folder, error) {
	f := &folder{dir: dir, private: dir == ""}
	var err error
	if f.private {
		f.dir, err = os.MkdirTemp("", "layover-")
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		f.root, err = openOwn(f.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("local: state folder: %w", err)
	}
	if err := f.take(run, log); err != nil {
		f.root.Close()
		return nil, err
	}
	return f, nil
}

// CheckState returns why New would refuse dir as the state folder of this user,
// as far as that can be seen without making or taking it. That another router has
// it is no such reason.
func CheckState(dir string) error {
	root, err := openOwn(dir)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir) // where it would be made
		_, err = os.Stat(dir)
	}
	if err != nil {
		return err
	}
	if root != nil {
		root.Close()
	}
	const writeAndEnter = 2 | 1
	if err := syscall.Access(dir, writeAndEnter); err != nil {
		return fmt.Errorf("nothing can be made in %s: %w", dir, err)
	}
	return nil
}

// openOwn opens a folder that only this process's user can have prepared. What
// is in it decides which processes are killed, and with root's rights which
// files are written.
func openOwn(dir string) (*os.Root, error) {
	link, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = ours(dir, link, info)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// ours returns why dir is not to be trusted. A link to it is, if it is this
// user's or root's: a service manager makes such links.
func ours(dir string, link, info fs.FileInfo) error {
	const fix = "name another folder, or remove this one"
	const othersWrite = 0o022
	switch me := os.Geteuid(); {
	case link.Mode()&fs.ModeSymlink != 0 && ownerOf(link) != me && ownerOf(link) != 0:
		return fmt.Errorf("%s is a link that belongs to user %d: %s", dir, ownerOf(link), fix)
	case ownerOf(info) != me:
		return fmt.Errorf("%s belongs to user %d, not to user %d, who runs the router: %s", dir, ownerOf(info), me, fix)
	case info.Mode().Perm()&othersWrite != 0:
		return fmt.Errorf("%s can be written by others (mode %#o): %s, or run chmod go-w", dir, info.Mode().Perm(), fix)
	}
	return nil
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// take locks the folder for run and ends what is left in it.
func (f *folder) take(run string, log *slog.Logger) (err error) {
	if f.lock, err = f.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("local: state folder: %w", err)
	}
	text, _ := io.ReadAll(f.lock)
	var before owner
	json.Unmarshal(text, &before) // a torn or empty file knows of no runs
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("local: state folder %s is in use by process %d: stop it, or give each router a folder of its own", f.dir, before.PID)
		}
		return fmt.Errorf("local: state folder: lock: %w", err)
	}
	if err := f.own(append(before.Runs, run)); err != nil {
		f.lock.Close()
		return fmt.Errorf("local: state folder: %w", err)
	}
	f.endLeftovers(before.Runs, log)
	if err := f.own([]string{run}); err != nil {
		f.lock.Close()
		return fmt.Errorf("local: state folder: %w", err)
	}
	return nil
}

func (f *folder) own(runs []string) error {
	text, err := json.Marshal(owner{PID: os.Getpid(), Runs: runs})
	if err != nil {
		return err
	}
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err = f.lock.WriteAt(text, 0)
	return err
}

// close gives the folder up.
func (f *folder) close() error {
	defer f.root.Close()
	if f.private {
		os.RemoveAll(f.dir)
	} else if err := f.own(nil); err != nil {
		f.lock.Close()
		return err
	}
	return f.lock.Close()
}

// write notes what runs for pr's actor and returns the file's name.
func (f *folder) write(pr *process) (string, error) {
	name := "actor-" + pr.job.Name + ".json"
	text, err := json.Marshal(record{PID: pr.pid(), Identity: identity(pr.pid()), Marker: pr.marker})
	if err != nil {
		return "", err
	}
	return name, f.root.WriteFile(name, text, 0o600)
}

func (f *folder) remove(name string) {
	if name != "" {
		f.root.Remove(name)
	}
}

// How long what a killed router left is given to end by itself, and then to be
// gone after KILL.
const (
	leftoverGrace = 2 * time.Second
	leftoverLimit = 3 * time.Second
)

// endLeftovers ends the processes of runs that are over.
func (f *folder) endLeftovers(runs []string, log *slog.Logger) {
	files, _ := fs.Glob(f.root.FS(), "actor-*.json")
	var records []record
	for _, name := range files {
		var r record
		text, err := f.root.ReadFile(name)
		if err == nil && json.Unmarshal(text, &r) == nil && r.PID > 1 {
			records = append(records, r)
		}
	}
	var markers []string
	for _, run := range runs {
		markers = append(markers, markerKey+"="+run+"/")
	}
	if left := leftovers(records, markers); len(left) > 0 {
		log.Warn("ending processes that a killed router left", "folder", f.dir, "pids", left)
	}
	began := time.Now()
	asked := make(map[int]bool)
	for {
		left := leftovers(records, markers)
		if len(left) == 0 {
			break
		}
		if time.Since(began) > leftoverGrace+leftoverLimit {
			log.Error("processes that a killed router left cannot be killed", "pids", left)
			return // the files stay, for the next one
		}
		for _, pid := range left {
			signal := syscall.SIGTERM
			if time.Since(began) > leftoverGrace {
				signal = syscall.SIGKILL
			} else if asked[pid] {
				continue
			}
			asked[pid] = true
			signalLeftover(pid, signal, records, markers)
		}
		pause(context.Background(), time.Since(began))
	}
	for _, name := range files {
		f.root.Remove(name)
	}
}
