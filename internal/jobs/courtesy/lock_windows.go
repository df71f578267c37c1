package courtesy

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks f until it is closed or the process ends, however it ends.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errInUse
	}
	return err
}

// ours returns why a folder is not to be trusted. Who may write to one in
// a user's profile is the system's business.
func ours(info fs.FileInfo) error {
	if !info.IsDir() {
		return errors.New("it is not a folder")
	}
	return nil
}
