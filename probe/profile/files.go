package profile

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"tare/kernel/procfs"
	"tare/probe/symbol"
)

// files finds the files that were mapped, and in them functions. Each is read
// once.
type files struct {
	roots []string
	// elsewhere are the paths at which a build id was mapped too: a program that
	// runs from a copy of itself in memory was started from a file.
	elsewhere map[string][]string
	byBuildID map[string]*symbol.File // nil where it cannot be found
	byPath    map[string]*symbol.File
	opened    map[string]*symbol.File // by the path it was opened at
	missing   map[string]bool         // base names of files that were not found
}

func newFiles(roots []string) *files {
	return &files{
		roots: roots, elsewhere: map[string][]string{}, byBuildID: map[string]*symbol.File{},
		byPath: map[string]*symbol.File{}, opened: map[string]*symbol.File{}, missing: map[string]bool{},
	}
}

func key(buildID []byte) string {
	if len(buildID) == 0 {
		return ""
	}
	return symbol.Key(buildID)
}

// seen takes note of where a build id is to be found.
func (f *files) seen(buildID, file string) {
	if buildID == "" || !strings.HasPrefix(file, "/") || nameless(file) {
		return
	}
	for _, known := range f.elsewhere[buildID] {
		if known == file {
			return
		}
	}
	f.elsewhere[buildID] = append(f.elsewhere[buildID], file)
}

// inMemory: the kernel names what is in no file system "/memfd:NAME (deleted)".
func inMemory(file string) bool { return strings.HasPrefix(file, "/memfd:") }

// nameless: a file that the process' root does not reach, such as runc's clone
// of itself on a mount of its own, has the path "/".
func nameless(file string) bool { return file == "/" || inMemory(file) }

// program is the path of what a process executes. One without a name, a copy
// that a program made of itself, has the path of what it was copied from, where
// that was executed too.
func (f *files) program(m *mapping) string {
	if known := f.elsewhere[m.buildID]; nameless(m.file) && len(known) > 0 {
		return known[0]
	}
	return m.file
}

// function names what a process has at an offset of a mapped file.
func (f *files) function(pid int, m *mapping, offset uint64) string {
	if !strings.HasPrefix(m.file, "/") || strings.HasPrefix(m.file, "//") {
		// "[vdso]", "[heap]", "//anon", "anon_inode:...": code that is in no file.
		if strings.HasPrefix(m.file, "[") {
			return m.file
		}
		return "[anonymous]"
	}
	file := f.find(pid, m)
	if file != nil {
		if name, ok := file.Function(offset); ok {
			return name
		}
	}
	return fmt.Sprintf("[%s+%#x]", base(f.program(m)), offset)
}

// base is a file's name for showing: "/memfd:runc_cloned:/proc/self/exe
// (deleted)" is runc_cloned.
func base(file string) string {
	if inMemory(file) {
		name, _, _ := strings.Cut(strings.TrimPrefix(file, "/memfd:"), ":")
		return strings.TrimSuffix(name, " (deleted)")
	}
	return path.Base(strings.TrimSuffix(file, " (deleted)"))
}

func (f *files) find(pid int, m *mapping) *symbol.File {
	cache, name := f.byPath, m.file
	if m.buildID != "" {
		cache, name = f.byBuildID, m.buildID
	}
	if file, done := cache[name]; done {
		return file
	}
	file := f.look(pid, m)
	if file == nil {
		f.missing[base(m.file)] = true
	}
	cache[name] = file
	return file
}

// look tries the places where the file may be. A place counts if it has the
// build id that the kernel read, or, where that read none, if the mapping fits
// the file.
func (f *files) look(pid int, m *mapping) *symbol.File {
	var places []string
	add := func(file string) {
		for _, root := range append([]string{procfs.Host.Process(pid).Path("root"), ""}, f.roots...) {
			places = append(places, root+file)
		}
	}
	switch {
	case !inMemory(m.file):
		add(strings.TrimSuffix(m.file, " (deleted)"))
	case m.buildID == "":
		// runc makes the copy of itself "runc_cloned", crun "crun_cloned".
		name, _, _ := strings.Cut(base(m.file), "_")
		if found, err := exec.LookPath(name); err == nil {
			places = append(places, found)
		}
	}
	for _, file := range f.elsewhere[m.buildID] {
		add(file)
	}
	for _, place := range places {
		file, ok := f.opened[place]
		if !ok {
			file = open(place)
			f.opened[place] = file
		}
		if file == nil {
			continue
		}
		if m.buildID != "" && symbol.Key(file.BuildID) == m.buildID || m.buildID == "" && file.Maps(m.offset, m.end-m.start) {
			return file
		}
	}
	return nil
}

// open reads a file's functions; nil where it cannot be read. Devices and pipes
// are not opened, which might never end.
func open(place string) *symbol.File {
	info, err := os.Stat(place)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := symbol.Open(place)
	if err != nil {
		return nil
	}
	return file
}
