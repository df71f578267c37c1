//go:build unix

package courtesy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lockFile locks f until it is closed or the process ends, however it ends.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return err
}

// ours returns why a folder is not to be trusted.
func ours(info fs.FileInfo) error {
	if !info.IsDir() {
		return errors.New("it is not a folder")
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, not to user %d, who runs this", owner, os.Geteuid())
	}
	return nil
}
