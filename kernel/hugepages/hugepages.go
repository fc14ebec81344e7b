// Package hugepages reads and sets when the kernel makes transparent huge pages of
// programs' memory. That reaches every program on the host: whoever writes has been
// permitted to be disruptive.
//
// There is one setting for all sizes of pages, and newer kernels have one for each size,
// which may inherit the former. What is meant here by huge is the size that one entry of
// the next level of page tables maps, 2 MiB on most machines.
//
// Source: Documentation/admin-guide/mm/transhuge.rst.
package hugepages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Always, of the kernel's words, has it make huge pages without being asked to.
const Always = "always"

// inherit is a size's word for what is set for all.
const inherit = "inherit"

// Directory is the kernel's; empty is /sys/kernel/mm/transparent_hugepage.
type Directory string

func (d Directory) file(names ...string) string {
	if d == "" {
		d = "/sys/kernel/mm/transparent_hugepage"
	}
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Set is the word that is set for all sizes: always, madvise or never. The error wraps
// [fs.ErrNotExist] where the kernel has no transparent huge pages.
func (d Directory) Set() (string, error) { return chosen(d.file("enabled")) }

// InForce is the word that holds for huge pages, whether they have one of their own or not.
func (d Directory) InForce() (string, error) {
	if own := d.own(); own != "" {
		if word, err := chosen(own); !errors.Is(err, fs.ErrNotExist) && word != inherit {
			return word, err
		}
	}
	return d.Set()
}

// own is the file of the huge pages' own setting; empty where the kernel names no size.
func (d Directory) own() string {
	text, err := os.ReadFile(d.file("hpage_pmd_size"))
	if err != nil {
		return ""
	}
	bytes, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return ""
	}
	return d.file(fmt.Sprintf("hugepages-%dkB", bytes>>10), "enabled")
}

// Settable says why this process cannot have a word in force, without trying; nil where
// it can.
func (d Directory) Settable() error {
	f, err := os.OpenFile(d.file("enabled"), os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this kernel has no transparent huge pages (%s is not there)", d.file("enabled"))
	case err != nil:
		return fmt.Errorf("transparent huge pages cannot be set: %w: this requires root on the host", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if own := d.own(); own != "" {
		if word, err := chosen(own); err == nil && word != inherit {
			return fmt.Errorf("huge pages have a setting of their own, %s: write %s to %s", word, inherit, own)
		}
	}
	return nil
}

// Write sets a word for all sizes that inherit it.
func (d Directory) Write(word string) error {
	if err := os.WriteFile(d.file("enabled"), []byte(word), 0); err != nil {
		return fmt.Errorf("set transparent huge pages to %s: %w", word, err)
	}
	return nil
}

// chosen is the word in brackets of a file's: "always [madvise] never".
func chosen(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(text), "[")
	word, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return "", fmt.Errorf("%s holds %.40q, in which no word is chosen", file, text)
	}
	return word, nil
}
