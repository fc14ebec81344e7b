package profile

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"tare/kernel/mount"
	"tare/kernel/procfs"
	"tare/probe"
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
	byPath    map[located]*symbol.File
	opened    map[candidate]*symbol.File
	left      int               // how many more are read
	missing   map[string]bool   // base names of files that were not found, but other programs'
	runtimes  map[string]string // by build id the paths of copied; nil until asked for
}

// mostFiles is how many files are read: each may take a second, and programs may have made any number.
const mostFiles = 1024

// candidate is where a file may be: seen from a root, which a container may have filled, or, without one, as
// programs of this host's PATH are found.
type candidate struct{ root, file string }

// located is a path, of a container's file systems or the host's.
type located struct {
	path      string
	contained bool
}

func newFiles(roots []string) *files {
	return &files{
		roots: roots, elsewhere: map[string][]string{}, byBuildID: map[string]*symbol.File{},
		byPath: map[located]*symbol.File{}, opened: map[candidate]*symbol.File{}, left: mostFiles,
		missing: map[string]bool{},
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
// that is known.
func (f *files) program(m *mapping) string {
	if nameless(m.file) {
		if origin := f.origin(m.buildID); origin != "" {
			return origin
		}
	}
	return m.file
}

// origin is a path of the file with a build id: one at which it was mapped too,
// or a runtime's, which may have made its copy before anything was recorded.
func (f *files) origin(buildID string) string {
	if buildID == "" {
		return ""
	}
	if known := f.elsewhere[buildID]; len(known) > 0 {
		return known[0]
	}
	if f.runtimes == nil {
		f.runtimes = map[string]string{}
		for _, name := range copied {
			found, err := exec.LookPath(name)
			if err != nil {
				continue
			}
			if id, err := symbol.OpenBuildID(found); err == nil && len(id) > 0 {
				f.runtimes[key(id)] = found
			}
		}
	}
	return f.runtimes[buildID]
}

// copied are the runtimes that run from copies of themselves, so that a
// container cannot overwrite them (CVE-2019-5736).
var copied = []string{"runc", "crun"}

// function names what a process has at an offset of a mapped file.
func (f *files) function(p *probe.Process, m *mapping, offset uint64) string {
	if !strings.HasPrefix(m.file, "/") || strings.HasPrefix(m.file, "//") {
		// "[vdso]", "[heap]", "//anon", "anon_inode:...": code that is in no file.
		if strings.HasPrefix(m.file, "[") {
			return m.file
		}
		return "[anonymous]"
	}
	file := f.find(p, m)
	if file != nil {
		if name, ok := file.Function(offset); ok {
			return name
		}
	}
	return fmt.Sprintf("[%s+%#x]", base(f.program(m)), offset)
}

// base is a file's name for showing: "/memfd:runc_cloned:/proc/self/exe
// (deleted)" is runc_cloned, and what has no name is "nameless".
func base(file string) string {
	if file == "/" {
		return "nameless"
	}
	if inMemory(file) {
		name, _, _ := strings.Cut(strings.TrimPrefix(file, "/memfd:"), ":")
		return strings.TrimSuffix(name, " (deleted)")
	}
	return path.Base(strings.TrimSuffix(file, " (deleted)"))
}

func (f *files) find(p *probe.Process, m *mapping) *symbol.File {
	if m.buildID != "" {
		return once(f, f.byBuildID, m.buildID, p, m)
	}
	return once(f, f.byPath, located{m.file, p.Contained}, p, m)
}

// once looks for a file, unless it was looked for.
func once[K comparable](f *files, known map[K]*symbol.File, k K, p *probe.Process, m *mapping) *symbol.File {
	if file, done := known[k]; done {
		return file
	}
	file := f.look(p, m)
	if file == nil && probe.ComponentOf(*p, self) != probe.Other {
		f.missing[base(m.file)] = true
	}
	known[k] = file
	return file
}

// look tries the places where the file may be. A place counts if it has the
// build id that the kernel read, or, where that read none, if the mapping fits
// the file; then what a container has is looked for in images first, where the
// host has a file of the same name.
func (f *files) look(p *probe.Process, m *mapping) *symbol.File {
	roots := append([]string{procfs.Host.Process(p.PID).Path("root"), "/"}, f.roots...)
	if p.Contained {
		roots = append(append(roots[:1:1], f.roots...), "/")
	}
	var places []candidate
	add := func(file string) {
		for _, root := range roots {
			places = append(places, candidate{root, file})
		}
	}
	switch {
	case !nameless(m.file):
		add(m.file)
		if before, deleted := strings.CutSuffix(m.file, " (deleted)"); deleted {
			add(before) // where another may lie by now
		}
	case m.buildID == "" && inMemory(m.file):
		// runc names the copy "runc_cloned".
		name, _, _ := strings.Cut(base(m.file), "_")
		if found, err := exec.LookPath(name); err == nil && slices.Contains(copied, name) {
			places = append(places, candidate{"", found})
		}
	}
	switch origin := f.origin(m.buildID); {
	case origin == "":
	case slices.Contains(f.elsewhere[m.buildID], origin):
		places = append(places, candidate{"/", origin})
	default:
		places = append(places, candidate{"", origin})
	}
	for _, file := range f.elsewhere[m.buildID] {
		add(file)
	}
	for _, at := range places {
		symbols, ok := f.opened[at]
		if !ok && f.left > 0 {
			if symbols = open(procfs.Host.Process(p.PID), at); symbols != nil {
				f.left--
			}
			f.opened[at] = symbols
		}
		if symbols == nil {
			continue
		}
		if m.buildID != "" && symbol.Key(symbols.BuildID) == m.buildID ||
			m.buildID == "" && symbols.Maps(m.offset, m.end-m.start) {
			return symbols
		}
	}
	return nil
}

// open reads a file's functions; nil where it cannot be read. Devices and pipes are not opened, which might never
// end. In a root the kernel's own path has no links: one that somebody has put there since might lead anywhere.
func open(p procfs.Process, at candidate) *symbol.File {
	if at.root == "" {
		symbols, err := symbol.Open(at.file)
		if err != nil {
			return nil
		}
		return symbols
	}
	pinned, err := mount.Pin(p, at.root, at.file)
	if err != nil {
		return nil
	}
	defer pinned.Close()
	opened, err := pinned.Open()
	if err != nil {
		return nil
	}
	defer opened.Close()
	symbols, err := symbol.Of(opened)
	if err != nil {
		return nil
	}
	return symbols
}
