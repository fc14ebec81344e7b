package faults

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"tare/kernel/mount"
	"tare/kernel/procfs"
	"tare/probe/symbol"
)

// Names gives which functions code sites are in. It reads each file once, where
// this host has it mounted.
type Names struct {
	recording *Recording
	mounts    []procfs.Mount
	files     map[File]*symbol.File // nil where it cannot be read
	left      int                   // how many more are read
}

// mostFiles is how many files are read: each may take a second, and programs may have made any number.
const mostFiles = 1024

// Names prepares to name the sites of a recording.
func (r *Recording) Names() (*Names, error) {
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return nil, err
	}
	return &Names{recording: r, mounts: mounts, files: map[File]*symbol.File{}, left: mostFiles}, nil
}

// Function names the function that a site is in; ok is false where the file is not
// there any more, or knows no function there.
func (n *Names) Function(s Site) (name string, ok bool) {
	symbols, known := n.files[s.File]
	if !known {
		if n.left > 0 {
			symbols = n.read(s.File)
		}
		if symbols != nil {
			n.left--
		}
		n.files[s.File] = symbols
	}
	if symbols == nil {
		return "", false
	}
	return symbols.Function(s.Offset)
}

// read looks for a file where its file system is mounted, and reads it; nil where it is
// not there, or what is there has no names, as code made at run time. The path is the
// container's, and so may be what lies there by now: it is that file only if
// its numbers are the same.
func (n *Names) read(f File) *symbol.File {
	within := n.recording.Path(f)
	if within == "" {
		return nil
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
		opened, err := open(m.Point, rest, f)
		if err != nil {
			continue
		}
		symbols, err := symbol.Of(opened)
		_ = opened.Close() // it was only read
		if err == nil {
			return symbols
		}
	}
	return nil
}

// open opens what is at a path below a mount point, if it is that file.
func open(point, path string, f File) (*os.File, error) {
	pinned, err := mount.Pin(procfs.Host.Process(os.Getpid()), "/", point+"/"+path)
	if err != nil {
		return nil, err
	}
	defer pinned.Close()
	info, err := pinned.Stat()
	if err != nil {
		return nil, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Dev != f.Device || stat.Ino != f.Inode {
		return nil, fmt.Errorf("%s%s is another file", point, path)
	}
	return pinned.Open()
}
