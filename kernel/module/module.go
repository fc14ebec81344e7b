// Package module reads what modules of the kernel say of themselves, puts them into
// the order in which they can be loaded, and loads them.
//
// It is no modprobe: it knows no aliases, options or blacklists, and no index that
// depmod writes. What a module needs stands in its own .modinfo section
// (include/linux/module.h, MODULE_INFO), which is where depmod has it from, too.
package module

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Info is what a module's file says.
type Info struct {
	Name    string   // as the kernel knows it: "virtio_blk"
	Depends []string // modules that must be loaded before it
	// Before are modules that it asks for before it, and does without where they are
	// not there (MODULE_SOFTDEP, "pre:").
	Before []string
	// Release is that of the kernel which it was made for: "6.1.0-56-cloud-amd64".
	Release string
}

// mostInfo bounds a .modinfo section: those of real modules are a few kilobytes,
// aliases included.
const mostInfo = 1 << 20

// Read reads the head of a module's file.
func Read(r io.ReaderAt) (Info, error) {
	file, err := elf.NewFile(r)
	if err != nil {
		return Info{}, err
	}
	defer file.Close()
	section := file.Section(".modinfo")
	if section == nil {
		return Info{}, errors.New("no .modinfo section: not a module of the kernel's")
	}
	if section.Type == elf.SHT_NOBITS || section.Size > mostInfo {
		return Info{}, fmt.Errorf("a .modinfo section of %d bytes is no module's", section.Size)
	}
	data, err := section.Data()
	if err != nil {
		return Info{}, fmt.Errorf(".modinfo: %w", err)
	}
	return ParseInfo(data)
}

// ParseInfo parses a .modinfo section: KEY=VALUE strings, each ended by a null byte.
func ParseInfo(section []byte) (Info, error) {
	var info Info
	for word := range bytes.SplitSeq(section, []byte{0}) {
		key, value, ok := strings.Cut(string(word), "=")
		if !ok {
			if len(word) > 0 {
				return Info{}, fmt.Errorf(".modinfo: %q is not KEY=VALUE", word)
			}
			continue
		}
		switch key {
		case "name":
			info.Name = Name(value)
		case "vermagic":
			info.Release, _, _ = strings.Cut(value, " ")
		case "depends":
			for name := range strings.SplitSeq(value, ",") {
				if name != "" {
					info.Depends = append(info.Depends, Name(name))
				}
			}
		case "softdep":
			info.Before = append(info.Before, before(value)...)
		}
	}
	if info.Name == "" {
		return Info{}, errors.New(".modinfo names no module")
	}
	return info, nil
}

// before gives the modules after "pre:" of a soft dependency, "pre: a b post: c".
func before(text string) []string {
	var names []string
	pre := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.HasSuffix(word, ":"):
			pre = word == "pre:"
		case pre:
			names = append(names, Name(word))
		}
	}
	return names
}

// Name is the module's name by that of its file, "virtio-rng.ko": the kernel writes
// every dash as an underscore.
func Name(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// Unmet says that a module is needed and not there.
type Unmet struct{ Name, By string }

func (u *Unmet) Error() string {
	if u.By == "" {
		return "there is no module " + u.Name
	}
	return fmt.Sprintf("there is no module %s, which %s needs", u.Name, u.By)
}

// Order gives the wanted modules and all that they need, each after what it needs. all
// are those that there are, by name. The error is an [*Unmet], or names a circle.
func Order(all map[string]Info, wanted []string) ([]string, error) {
	o := order{all: all, state: map[string]int{}}
	for _, name := range wanted {
		if err := o.visit(Name(name), nil); err != nil {
			return nil, err
		}
	}
	return o.names, nil
}

type order struct {
	all   map[string]Info
	state map[string]int // 1 while what it needs is visited, 2 when it stands in names
	names []string
}

func (o *order) visit(name string, way []string) error {
	info, ok := o.all[name]
	if !ok {
		by := ""
		if len(way) > 0 {
			by = way[len(way)-1]
		}
		return &Unmet{name, by}
	}
	switch o.state[name] {
	case 1:
		return fmt.Errorf("modules need each other: %s", strings.Join(append(way, name), " needs "))
	case 2:
		return nil
	}
	o.state[name] = 1
	way = append(slices.Clip(way), name)
	for _, needed := range info.Before {
		if _, ok := o.all[needed]; !ok || o.state[needed] == 1 {
			continue
		}
		if err := o.visit(needed, way); err != nil {
			return err
		}
	}
	for _, needed := range info.Depends {
		if err := o.visit(needed, way); err != nil {
			return err
		}
	}
	o.state[name] = 2
	o.names = append(o.names, name)
	return nil
}
