// Package filetest has what tests need to leave files at a place that the next run of
// them knows: it cleans up there what a killed run left. It removes nothing itself.
package filetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Own makes a directory for nobody else, or takes one that is there. Its parent may be
// one that all write to, such as /var/tmp, where anyone can have put something under a
// name that is known: what is no directory, links to one, is another user's, or may be
// written by others, is refused. A parent that all write to is to have the sticky bit, by
// which what was looked at stays.
func Own(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory (%v): remove it", path, info.Mode().Type())
	case !ok:
		return fmt.Errorf("whose %s is cannot be told", path)
	case int(of.Uid) != os.Geteuid():
		return fmt.Errorf("%s is of user %d, and this is %d: remove it", path, of.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s may be written by others (%v): remove it", path, info.Mode())
	}
	return nil
}
