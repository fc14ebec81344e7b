// Package overlay finds the layers of an overlay file system, how many of them have a
// directory, and which files were copied up.
//
// The layers' contents are in the hands of containers: no link leads out of a layer, and no
// file is opened.
//
// Sources: the kernel's Documentation/filesystems/overlayfs.rst, fs/overlayfs/params.c.
package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"tare/kernel/file"
	"tare/kernel/procfs"
)

// Layers are the directories of an overlay.
type Layers struct {
	Lower []string // the topmost first
	Upper string   // empty where it cannot be written
}

// Of reads the layers of a mount; false where it is no overlay.
func Of(m procfs.Mount) (Layers, bool) {
	var l Layers
	if m.FSType != "overlay" {
		return l, false
	}
	for _, option := range m.SuperOptions {
		key, value, _ := strings.Cut(option, "=")
		value = procfs.Unescape(value)
		switch key {
		case "upperdir":
			l.Upper = value
		case "lowerdir":
			l.Lower = append(l.Lower, split(value)...)
		case "lowerdir+": // each by itself: since Linux 6.7
			l.Lower = append(l.Lower, value)
		}
	}
	return l, len(l.Lower) > 0
}

// split cuts at colons that no backslash escapes. What comes behind two colons are layers of
// data without names.
func split(list string) (all []string) {
	list, _, _ = strings.Cut(list, "::")
	var one strings.Builder
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == '\\' && i+1 < len(list):
			i++
			one.WriteByte(list[i])
		case list[i] == ':':
			all = append(all, one.String())
			one.Reset()
		default:
			one.WriteByte(list[i])
		}
	}
	if one.Len() > 0 {
		all = append(all, one.String())
	}
	return all
}

// Depth is in how many layers a directory is. It is 0 where there is none of that name, or a link
// leads to it, or the paths of the layers are relative to a directory that the kernel does not
// name.
func (l Layers) Depth(dir string) int {
	depth := 0
	for _, layer := range append([]string{l.Upper}, l.Lower...) {
		if !strings.HasPrefix(layer, "/") {
			continue
		}
		if p, err := file.PinBelow(layer, dir); err == nil {
			if p.IsDirectory() {
				depth++
			}
			_ = p.Close()
		}
	}
	return depth
}

// Copied is a file that was copied up.
type Copied struct {
	Path  string // below the overlay's root
	Bytes int64  // that it has on its disk
}

// mostEntries bounds how much of an upper layer is looked at.
const mostEntries = 20_000

// CopiedUp finds the files that were copied up since a moment. isWhole is false where the upper
// layer has too many entries, of which only the first were looked at.
func (l Layers) CopiedUp(since time.Time) (all []Copied, isWhole bool, err error) {
	if !strings.HasPrefix(l.Upper, "/") {
		return nil, true, nil
	}
	root, err := os.OpenRoot(l.Upper)
	if err != nil {
		return nil, false, fmt.Errorf("look for files copied up: %w", err)
	}
	defer root.Close()
	entries := 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if entries++; entries > mostEntries {
			return errTooMany
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what vanishes meanwhile is not looked at
		}
		if c, ok := l.copied(path, d, since); ok {
			all = append(all, c)
		}
		return nil
	})
	if errors.Is(err, errTooMany) {
		return all, false, nil
	}
	return all, true, err
}

var errTooMany = errors.New("too many entries")

// origin is the attribute of what was copied up, whether or not it names the original; metacopy
// is that of a file whose data still lie below.
const origin, metacopy = "trusted.overlay.origin", "trusted.overlay.metacopy"

func (l Layers) copied(path string, d fs.DirEntry, since time.Time) (Copied, bool) {
	info, err := d.Info()
	if err != nil {
		return Copied{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || time.Unix(stat.Ctim.Unix()).Before(since) {
		return Copied{}, false
	}
	p, err := file.PinBelow(l.Upper, path)
	if err != nil {
		return Copied{}, false
	}
	defer p.Close()
	born, err := p.Born()
	if err != nil || born.Before(since) || !p.HasAttribute(origin) || p.HasAttribute(metacopy) {
		return Copied{}, false
	}
	return Copied{Path: "/" + path, Bytes: min(info.Size(), stat.Blocks*512)}, true
}
