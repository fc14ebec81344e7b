package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tare/kernel/file"
	"tare/kernel/mount"
	"tare/terminal"
)

// ownPath leaves out of PATH what another user could put a program into: root starts programs by their names
// (runc, ip, tar). Each that is left out is told.
func ownPath(ctx context.Context, told io.Writer) {
	// In a user namespace the host's files belong to nobody, and root there is not the host's.
	if os.Geteuid() != 0 || file.Administered("/") != nil {
		return
	}
	var kept []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if why := unfit(ctx, dir); why != nil {
			terminal.Fprintf(told, "warning: %q is left out of PATH: %s\n", dir, why)
			continue
		}
		kept = append(kept, dir)
	}
	os.Setenv("PATH", strings.Join(kept, string(filepath.ListSeparator)))
}

// unfit says why root does not look for programs in a directory. What is not there harms nobody.
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
	exposed := new(file.Exposed)
	if err := file.Administered(dir); errors.As(err, &exposed) {
		return exposed
	}
	return nil
}
