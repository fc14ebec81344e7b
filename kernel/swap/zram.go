package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NoZRAM says that this kernel makes no compressed block devices.
type NoZRAM struct{ Why string }

func (n *NoZRAM) Error() string {
	return fmt.Sprintf("this kernel has no zram (%s): load its module (modprobe zram), or boot a kernel built with CONFIG_ZRAM", n.Why)
}

// ZRAM is a compressed block device in memory that this package added. It can be
// written down, and removed by whoever reads that. What it holds is charged to no
// group.
type ZRAM struct {
	ID   int   `json:"id"`         // of /dev/zramID
	Size int64 `json:"size_bytes"` // that it is to be configured with; distinguishes it from another of that number
	// Sequence is the kernel's count of disks when this one came (diskseq, Linux 5.15), which
	// no other has; 0 where it is unknown.
	Sequence int64 `json:"sequence,omitempty"`
}

// NotOurs says that a device of that number is there, and is another one.
type NotOurs struct {
	ZRAM
	Have int64 // its size
}

func (n *NotOurs) Error() string {
	if n.Have == n.Size || n.Have == 0 {
		return fmt.Sprintf("zram%d came after the one that was added here: it is somebody else's, and is left alone", n.ID)
	}
	return fmt.Sprintf("zram%d has a size of %d bytes, and the one that was added here had %d: it is somebody else's, and is left alone", n.ID, n.Have, n.Size)
}

func (h Host) zramControl(name string) string { return h.path("sys/class/zram-control", name) }

func (h Host) zramFile(z ZRAM, name string) string {
	return h.path("sys/block", "zram"+strconv.Itoa(z.ID), name)
}

// Device is the path that the device has below root's dev.
func (z ZRAM) Device() string { return "/dev/zram" + strconv.Itoa(z.ID) }

// HasZRAM reports whether a device can be added; the error is a [*NoZRAM].
func (h Host) HasZRAM() error {
	if _, err := os.Stat(h.zramControl("hot_add")); err != nil {
		return &NoZRAM{"there is no " + h.zramControl("hot_add")}
	}
	return nil
}

// AddZRAM adds a device to those there are, empty and taking no memory, to be
// configured with that size. Its number is the kernel's choice, so that it can be
// written down only now: do so before [Host.ConfigureZRAM]. What is lost in between is
// an empty device.
func (h Host) AddZRAM(size int64) (ZRAM, error) {
	if err := checkSize(size, os.Getpagesize()); err != nil {
		return ZRAM{}, err
	}
	if err := h.HasZRAM(); err != nil {
		return ZRAM{}, err
	}
	// Each read from its beginning adds one: exactly one read.
	f, err := os.Open(h.zramControl("hot_add"))
	if err != nil {
		return ZRAM{}, fmt.Errorf("adding a zram device: %w", err)
	}
	defer f.Close()
	text := make([]byte, 32)
	n, err := f.Read(text)
	if err != nil {
		return ZRAM{}, fmt.Errorf("adding a zram device: %w", err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || id < 0 {
		return ZRAM{}, fmt.Errorf("adding a zram device: %s gave %q, want a number", f.Name(), text[:n])
	}
	z := ZRAM{ID: id, Size: size}
	z.Sequence, err = h.sequence(z)
	return z, err
}

// ZRAMAlgorithms lists the compressors that a device can have, the kernel's own choice
// first.
func (h Host) ZRAMAlgorithms(z ZRAM) ([]string, error) {
	text, err := Setting{h.zramFile(z, "comp_algorithm")}.Read()
	if err != nil {
		return nil, err
	}
	return parseAlgorithms(text), nil
}

// parseAlgorithms reads "lzo-rle [lz4]": the one in force is in brackets.
func parseAlgorithms(text string) []string {
	all := strings.Fields(text)
	for i, name := range all {
		if inner, ok := strings.CutPrefix(name, "["); ok {
			all[i] = strings.TrimSuffix(inner, "]")
			chosen := all[i]
			return slices.Insert(slices.Delete(all, i, i+1), 0, chosen)
		}
	}
	return all
}

// ConfigureZRAM gives an added device its compressor (empty: the kernel's own choice)
// and size and writes a swap header to it. It takes memory from then on, as it fills.
func (h Host) ConfigureZRAM(z ZRAM, algorithm string) error {
	have, err := h.zramSize(z)
	if err != nil {
		return err
	}
	if have != 0 {
		return &NotOurs{z, have}
	}
	if algorithm != "" {
		if err := put(h.zramFile(z, "comp_algorithm"), algorithm); err != nil {
			offered, _ := h.ZRAMAlgorithms(z)
			return fmt.Errorf("compressor %q for zram%d: %w: this kernel has %s", algorithm, z.ID, err, strings.Join(offered, ", "))
		}
	}
	if err := put(h.zramFile(z, "disksize"), strconv.FormatInt(z.Size, 10)); err != nil {
		return fmt.Errorf("size of zram%d: %w", z.ID, err)
	}
	// O_EXCL of a block device: nobody may have it in use.
	f, err := os.OpenFile(h.path(z.Device()), os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: mount a devtmpfs at /dev, where the kernel puts new devices", err)
	}
	if err != nil {
		return err
	}
	err = writeHeader(f, z.Size)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// sequence is the device's number among all disks that the kernel has had; 0 where it
// does not count them.
func (h Host) sequence(z ZRAM) (int64, error) {
	n, err := number(h.zramFile(z, "diskseq"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return n, err
}

func (h Host) zramSize(z ZRAM) (int64, error) {
	size, err := number(h.zramFile(z, "disksize"))
	if err != nil {
		return 0, fmt.Errorf("zram%d: %w", z.ID, err)
	}
	return size, nil
}

// RemoveZRAM takes an added device away, configured or not, and what it holds: it must
// be out of use ([Off]); an error wraps EBUSY where it is not. One that is gone needs
// nothing, and a device of its number that is not of its size, or came later, is left
// alone: a [*NotOurs].
func (h Host) RemoveZRAM(z ZRAM) error {
	if _, err := os.Stat(filepath.Dir(h.zramFile(z, "disksize"))); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	have, err := h.zramSize(z)
	if err != nil {
		return err
	}
	now, err := h.sequence(z)
	if err != nil {
		return err
	}
	if have != 0 && have != z.Size || z.Sequence != 0 && now != z.Sequence {
		return &NotOurs{z, have}
	}
	if have != 0 {
		if err := put(h.zramFile(z, "reset"), "1"); err != nil {
			return fmt.Errorf("emptying zram%d: %w: swapoff it first", z.ID, err)
		}
	}
	if err := put(h.zramControl("hot_remove"), strconv.Itoa(z.ID)); err != nil {
		return fmt.Errorf("removing zram%d: %w: swapoff it first", z.ID, err)
	}
	return nil
}

// ZRAMStat is a device's mm_stat: the names are those of
// Documentation/admin-guide/blockdev/zram.rst. What this kernel does not say, being
// older, is 0.
type ZRAMStat struct {
	OrigDataSize   int64 `json:"orig_data_size"`  // bytes stored, before they were compressed; without same pages
	ComprDataSize  int64 `json:"compr_data_size"` // bytes, compressed
	MemUsedTotal   int64 `json:"mem_used_total"`  // bytes of memory that it takes, its allocator's waste included
	MemLimit       int64 `json:"mem_limit"`       // bytes that it may take; 0 is any
	MemUsedMax     int64 `json:"mem_used_max"`    // bytes that it has taken at most
	SamePages      int64 `json:"same_pages"`      // pages of one repeated word, which take no memory
	PagesCompacted int64 `json:"pages_compacted"` // pages freed by moving what was in them
	HugePages      int64 `json:"huge_pages"`      // pages that cannot be compressed
	HugePagesSince int64 `json:"huge_pages_since"`
}

// ZRAMStat reads what a device holds.
func (h Host) ZRAMStat(z ZRAM) (ZRAMStat, error) {
	text, err := Setting{h.zramFile(z, "mm_stat")}.Read()
	if err != nil {
		return ZRAMStat{}, err
	}
	s, err := ParseZRAMStat(text)
	if err != nil {
		return s, fmt.Errorf("zram%d: %w", z.ID, err)
	}
	return s, nil
}

// ParseZRAMStat reads a mm_stat: one line of at least the first seven figures.
func ParseZRAMStat(text string) (ZRAMStat, error) {
	var s ZRAMStat
	to := []*int64{&s.OrigDataSize, &s.ComprDataSize, &s.MemUsedTotal, &s.MemLimit, &s.MemUsedMax,
		&s.SamePages, &s.PagesCompacted, &s.HugePages, &s.HugePagesSince}
	const first = 7 // of Linux 4.1
	fields := strings.Fields(text)
	if len(fields) < first {
		return s, fmt.Errorf("mm_stat %q has %d figures, want %d or more", text, len(fields), first)
	}
	for i, field := range fields[:min(len(fields), len(to))] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return ZRAMStat{}, fmt.Errorf("mm_stat %q: figure %d is %q", text, i+1, field)
		}
		*to[i] = n
	}
	return s, nil
}
