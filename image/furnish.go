package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/containerd/continuity/devices"
)

// node is a device that programs expect in any root (the runtime
// specification's default devices).
type node struct {
	name         string
	major, minor int
}

var standardNodes = []node{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

// isStandardNode reports whether a device entry is one that furnish would make,
// or a terminal's, as roots made by other tools have them.
func isStandardNode(h *tar.Header) bool {
	if h.Typeflag != tar.TypeChar || path.Dir(path.Clean("/"+h.Name)) != "/dev" {
		return false
	}
	for _, n := range append([]node{{"console", 5, 1}, {"ptmx", 5, 2}}, standardNodes...) {
		if path.Base(h.Name) == n.name && h.Devmajor == int64(n.major) && h.Devminor == int64(n.minor) {
			return true
		}
	}
	return false
}

// mountPoints are where runtimes mount, parents first.
var mountPoints = []string{"proc", "sys", "dev", "dev/pts", "dev/shm"}

// refuseMountPoints refuses a root in which a mount point is there and no
// directory itself. Who mounts by a path on the host would follow a link that
// stands there into the host's own tree, and hide, say, its /etc.
func refuseMountPoints(source string, root *os.Root) error {
	for _, name := range mountPoints {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return furnishing(name, err)
		}
		if info.IsDir() {
			continue
		}
		reason := "it is no directory, but file systems are mounted there"
		if target, err := root.Readlink(name); err == nil {
			reason = fmt.Sprintf("it is a link, to %q, where only a directory is mounted on", target)
		}
		return &Refused{Archive: source, Entry: name, Reason: reason}
	}
	return nil
}

// furnish adds what every platform needs to find in a root and is not there:
// the directories that runtimes mount on, the files that engines bind over,
// the devices that a program on bare metal has from nowhere else. Doing it
// once, in the image, keeps the bytes the same on every platform. A root that
// has something else where runtimes mount is refused, in the name of source.
func furnish(source, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := refuseMountPoints(source, root); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		mode fs.FileMode
	}{
		{"dev", 0o755}, {"dev/pts", 0o755}, {"dev/shm", 0o777 | fs.ModeSticky}, {"etc", 0o755}, {"proc", 0o555},
		{"run", 0o755}, {"sys", 0o555}, {"tmp", 0o777 | fs.ModeSticky}, {"var", 0o755},
		{"var/tmp", 0o777 | fs.ModeSticky},
	} {
		if err := root.Mkdir(d.name, d.mode.Perm()); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return furnishing(d.name, err)
		}
		// The umask took its share.
		if err := root.Chmod(d.name, d.mode); err != nil {
			return furnishing(d.name, err)
		}
	}
	for _, f := range []struct{ name, content string }{
		{"etc/hostname", "tare\n"},
		{"etc/hosts", "127.0.0.1\tlocalhost tare\n::1\tlocalhost tare\n"},
		{"etc/resolv.conf", ""},
		{"etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
	} {
		if _, err := root.Lstat(f.name); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return furnishing(f.name, err)
			}
			continue
		}
		if err := root.WriteFile(f.name, []byte(f.content), 0o644); err != nil {
			return furnishing(f.name, err)
		}
		if err := root.Chmod(f.name, 0o644); err != nil {
			return furnishing(f.name, err)
		}
	}
	return furnishNodes(root, dir)
}

func furnishNodes(root *os.Root, dir string) error {
	dev, err := root.Lstat("dev")
	if err != nil {
		return err
	}
	if !dev.IsDir() {
		return furnishing("dev", errors.New("not a directory"))
	}
	for _, n := range standardNodes {
		name := path.Join("dev", n.name)
		if _, err := root.Lstat(name); err == nil {
			continue
		}
		full := filepath.Join(dir, name)
		if err := devices.Mknod(full, fs.ModeDevice|fs.ModeCharDevice|0o666, n.major, n.minor); err != nil {
			if errors.Is(err, fs.ErrPermission) {
				return &Missing{What: "making " + name + " in an image is not permitted", Mend: "run with CAP_MKNOD, such as by sudo outside a container"}
			}
			return furnishing(name, err)
		}
		if err := root.Chmod(name, 0o666); err != nil {
			return furnishing(name, err)
		}
	}
	return nil
}

func furnishing(name string, err error) error {
	return fmt.Errorf("furnish root with /%s: %w", name, err)
}

// settle gives every file and directory the canonical time, so that a program
// that looks at times sees the same on bare metal as in an engine.
func settle(dir string) error {
	var directories []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			directories = append(directories, p)
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			return nil // its own time is seen by no one
		}
		return os.Chtimes(p, canonicalTime, canonicalTime)
	})
	if err != nil {
		return err
	}
	for _, p := range directories {
		if err := os.Chtimes(p, canonicalTime, canonicalTime); err != nil {
			return err
		}
	}
	return nil
}
