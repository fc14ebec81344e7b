package command

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
	"tare/kernel/process"
)

// Of what a command requires at least. The Go runtime ends a program without a word that can be helped
// where it can make no thread, so both are looked at before anything begins.
const fewestFiles, fewestThreads = 256, 32

// room refuses to begin where limits of the caller leave too few open files or threads.
func room() error {
	// The Go runtime has raised the soft limit to the hard one.
	if files, err := process.OpenFilesMax(); err == nil && files < fewestFiles {
		return WithCode(Host, fmt.Errorf("%s, and %d are needed: %s", mayOpen(files), fewestFiles, raiseFiles))
	}
	if err := threadRoom(); err != nil {
		return WithCode(Host, err)
	}
	return nil
}

const raiseFiles = "raise the hard limit (ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container)"

func mayOpen(files uint64) string {
	return fmt.Sprintf("the limit RLIMIT_NOFILE lets this process have %d files open", files)
}

func threadRoom() error {
	host, err := cgroup.Host()
	if err != nil {
		return nil // no control groups, no limit of theirs
	}
	group, _, err := host.Of(os.Getpid())
	if err != nil {
		return nil
	}
	return group.ThreadRoom(fewestThreads)
}

// usedUp says which limit an error is of, for one that names none, and what to set; empty is no such.
func usedUp(err error) string {
	text := err.Error() // many errors are of texts that another program gave
	switch {
	case strings.Contains(text, syscall.EMFILE.Error()):
		if files, err := process.OpenFilesMax(); err == nil {
			return fmt.Sprintf(": %s: %s", mayOpen(files), raiseFiles)
		}
	case strings.Contains(text, "fork/exec") && strings.Contains(text, syscall.EAGAIN.Error()):
		if err := threadRoom(); err != nil {
			return ": " + err.Error()
		}
	}
	return ""
}
