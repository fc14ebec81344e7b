package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/kernel/module"
)

// orderFile lists, beside modules, which of them to load, a name a line, in the order
// in which they can be.
const orderFile = "order"

// rootModules are what the root disk is reached by.
var rootModules = []string{"virtio_pci", "virtio_blk"}

// modules are the modules of one kernel, in one directory.
type modules struct {
	dir     string
	release string
	all     map[string]module.Info
}

// findModules reads the modules below dir, where each release has a directory.
func findModules(dir string) (modules, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return modules{}, err
	}
	if len(entries) != 1 {
		return modules{}, fmt.Errorf("%s has modules of %d kernels, and one is to boot", dir, len(entries))
	}
	m := modules{dir: filepath.Join(dir, entries[0].Name()), release: entries[0].Name(), all: map[string]module.Info{}}
	files, err := filepath.Glob(filepath.Join(m.dir, "*.ko"))
	if err != nil {
		return modules{}, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return modules{}, err
		}
		info, err := module.Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return modules{}, fmt.Errorf("%s: %w", file, err)
		}
		if info.Release != m.release {
			return modules{}, fmt.Errorf("%s is for kernel %s, not %s", file, info.Release, m.release)
		}
		m.all[module.Name(file)] = info
	}
	return m, nil
}

// split gives what is to be loaded before the root is there, and what after it.
func (m modules) split() (early, late []string, err error) {
	if early, err = module.Order(m.all, rootModules); err != nil {
		return nil, nil, err
	}
	var names []string
	for name := range m.all {
		names = append(names, name)
	}
	slices.Sort(names)
	if late, err = module.Order(m.all, names); err != nil {
		return nil, nil, err
	}
	late = slices.DeleteFunc(late, func(name string) bool { return slices.Contains(early, name) })
	return early, late, nil
}

// loadModules loads the modules of a directory, by its list.
func loadModules(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, orderFile))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if err := module.Load(filepath.Join(dir, name+".ko"), ""); err != nil {
			return err
		}
	}
	return nil
}
