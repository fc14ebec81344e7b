package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tare/kernel/procfs"
	"tare/probe/symbol"
)

// Names tells which functions code sites are in. It reads each file once, where
// this host has it mounted.
type Names struct {
	recording *Recording
	mounts    []procfs.Mount
	files     map[File]*symbol.File // nil where it cannot be read
}

// Names prepares to name the sites of a recording.
func (r *Recording) Names() (*Names, error) {
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return nil, err
	}
	return &Names{recording: r, mounts: mounts, files: map[File]*symbol.File{}}, nil
}

// Function names the function that a site is in; ok is false where the file is not
// there any more, or knows no function there.
func (n *Names) Function(s Site) (name string, ok bool) {
	file, known := n.files[s.File]
	if !known {
		if path, ok := n.find(s.File); ok {
			// What is no ELF file, as code made at run time, has no names.
			file, _ = symbol.Open(path)
		}
		n.files[s.File] = file
	}
	if file == nil {
		return "", false
	}
	return file.Function(s.Offset)
}

// find looks for a file where its file system is mounted. It is that file only if
// its numbers are the same.
func (n *Names) find(f File) (path string, ok bool) {
	within := n.recording.Path(f)
	if within == "" {
		return "", false
	}
	for _, m := range n.mounts {
		var major, minor uint32
		if _, err := fmt.Sscanf(m.Device, "%d:%d", &major, &minor); err != nil || statDevice(major<<20|minor) != f.Device {
			continue
		}
		rest, below := strings.CutPrefix(within, strings.TrimSuffix(m.Root, "/"))
		if !below {
			continue
		}
		path := filepath.Join(m.Point, rest)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Dev == f.Device && stat.Ino == f.Inode {
			return path, true
		}
	}
	return "", false
}
