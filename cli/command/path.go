package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/terminal"
)

// ownPath leaves out of PATH what another user could put a program into: root starts programs by their names
// (runc, ip, tar). A directory that does not exist is left out in silence, each other one with a warning.
func ownPath(ctx context.Context, warnings io.Writer) {
	if !IsHostsRoot() {
		return
	}
	var kept []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		switch why := unfit(ctx, dir); {
		case errors.Is(why, fs.ErrNotExist):
			continue // a user who makes it later decides what it holds
		case why != nil:
			terminal.Fprintf(warnings, "warning: %q is left out of PATH: %s\n", dir, why)
			continue
		}
		kept = append(kept, dir)
	}
	os.Setenv("PATH", strings.Join(kept, string(filepath.ListSeparator)))
}

// IsHostsRoot reports whether this user is root on the host. In a user namespace the host's files belong to nobody,
// and root there is not the host's.
func IsHostsRoot() bool { return os.Geteuid() == 0 && file.Administered("/") == nil }

// unfit says why root does not look for programs in a directory.
func unfit(ctx context.Context, dir string) error {
	if !filepath.IsAbs(dir) {
		return errors.New("it is no absolute path")
	}
	// The system's own directories need not be asked whether they answer: this program may come from there.
	if !strings.HasPrefix(dir, "/usr/") && !strings.HasPrefix(dir, "/bin") && !strings.HasPrefix(dir, "/sbin") {
		if err := mount.Answers(ctx, dir, mount.Patience); err != nil {
			return err
		}
	}
	return file.Administered(dir)
}
