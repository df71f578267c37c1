// Package cache says where the tests keep what they get from package registries.
package cache

import (
	"os"
	"path/filepath"
	"regexp"
)

var thisModule = regexp.MustCompile(`(?m)^module layover$`)

// Folder is .cache of the tree that we run in, or a folder in the user's
// cache outside of it.
func Folder() string {
	dir, err := os.Getwd()
	for err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && thisModule.Match(text) {
			return filepath.Join(dir, ".cache")
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	if dir, err = os.UserCacheDir(); err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "layover")
}
