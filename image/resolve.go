package image

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Resolve follows the links in a path as a process rooted at root would, and
// gives the path inside without any. What does not exist is taken as written.
func Resolve(root, inside string) (string, error) {
	const most = 40 // links on one path, as the kernel has it
	todo := strings.Split(path.Clean("/"+inside), "/")
	at, links := "/", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			at = next // no link, or not there
			continue
		}
		if links++; links > most {
			return "", &os.PathError{Op: "resolve", Path: inside, Err: syscall.ELOOP}
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// Runs reports whether the image has a program at a path inside, links followed.
func (i Image) Runs(program string) bool {
	at, err := Resolve(i.Root, program)
	if err != nil {
		return false
	}
	info, err := os.Lstat(filepath.Join(i.Root, at))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
