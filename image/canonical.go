package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/continuity/sysx"

	kernelfile "tare/kernel/file"
)

// canonicalTime stands for every time in an image. Not the epoch itself, which
// some programs take for "no time".
var canonicalTime = time.Unix(946684800, 0) // 2000-01-01 00:00 UTC

// layer is what a canonical tar came to.
type layer struct {
	digest string // "sha256:..." of the tar, which is not compressed
	bytes  int64  // of the tar
	size   int64  // sum of file sizes
}

// writeCanonical writes the file system below dir as a tar that depends on
// nothing but its content: directories depth first with names in byte order,
// one fixed time, numeric owners, extended attributes only where programs see
// them, PAX headers only where a value does not fit otherwise. The root
// directory itself is not an entry. Sockets are left out: only the process
// that made one can use it.
func writeCanonical(ctx context.Context, out io.Writer, dir string) (layer, error) {
	return writeCanonicalFrom(ctx, out, dir, dir)
}

// writeCanonicalFrom is writeCanonical of what lies at from, dir itself or below
// it; names stay relative to dir.
func writeCanonicalFrom(ctx context.Context, out io.Writer, dir, from string) (layer, error) {
	sum := sha256.New()
	counted := &countingWriter{w: io.MultiWriter(out, sum)}
	c := canonicalWriter{tw: tar.NewWriter(counted)}
	name, err := filepath.Rel(dir, from)
	if err != nil {
		return layer{}, err
	}
	top, err := kernelfile.Pin(dir)
	if err != nil {
		return layer{}, err
	}
	defer top.Close()
	if err := c.tree(ctx, top, name); err != nil {
		return layer{}, err
	}
	return layer{
		digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)),
		bytes:  counted.n,
		size:   c.size,
	}, nil
}

// writeMarked is writeCanonical but for marks at the files that have holes, for a
// reader that makes them again.
func writeMarked(ctx context.Context, out io.Writer, dir *kernelfile.Pinned) error {
	c := canonicalWriter{tw: tar.NewWriter(out), marked: true}
	return c.tree(ctx, dir, ".")
}

// fileID distinguishes files.
type fileID struct{ device, inode uint64 }

type canonicalWriter struct {
	tw    *tar.Writer
	links map[fileID]string // a file with several names, to the first of them
	size  int64
	buf   []byte

	marked bool // files with holes say so
}

// tree writes what lies at a path below a root, or all of it, and the end of the tar. Another may change the tree
// meanwhile, as a container its volume: a link that is laid then leads nowhere else, and no pipe or device is opened.
func (c *canonicalWriter) tree(ctx context.Context, top *kernelfile.Pinned, name string) error {
	c.links, c.buf = map[fileID]string{}, make([]byte, 256<<10)
	var err error
	if name == "." {
		err = c.directory(ctx, top, "")
	} else {
		err = c.below(ctx, top, name)
	}
	if err != nil {
		return err
	}
	return c.tw.Close()
}

// below writes what lies at a path.
func (c *canonicalWriter) below(ctx context.Context, top *kernelfile.Pinned, name string) error {
	in, err := kernelfile.PinEntry(top.Path(), filepath.Dir(name))
	if err != nil {
		return err
	}
	defer in.Close()
	return c.entry(ctx, in, name)
}

// directory writes what lies in one, whose name is empty for the root.
func (c *canonicalWriter) directory(ctx context.Context, dir *kernelfile.Pinned, name string) error {
	names, isCut, err := dir.Entries(DefaultLimits.Entries)
	if err != nil {
		return err
	}
	if isCut {
		return fmt.Errorf("%s has more than %d entries", dir.Name(), DefaultLimits.Entries)
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(ctx, dir, filepath.Join(name, base)); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry of a directory, and what is below it.
func (c *canonicalWriter) entry(ctx context.Context, in *kernelfile.Pinned, name string) error {
	pinned, err := in.Entry(filepath.Base(name))
	if err != nil {
		return err
	}
	defer pinned.Close()
	if err := c.add(ctx, pinned, name); err != nil || !pinned.IsDirectory() {
		return err
	}
	return c.directory(ctx, pinned, name)
}

func (c *canonicalWriter) add(ctx context.Context, pinned *kernelfile.Pinned, name string) error {
	info, err := pinned.Lstat()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = pinned.Readlink(); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = name
	if info.IsDir() {
		header.Name += "/"
	}
	header.Uname, header.Gname = "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = canonicalTime, time.Time{}, time.Time{}
	header.Format = tar.FormatUnknown

	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 && !info.IsDir() {
		at := fileID{uint64(stat.Dev), stat.Ino}
		if first, seen := c.links[at]; seen {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			return c.tw.WriteHeader(header)
		}
		c.links[at] = name
	}
	if info.IsDir() || info.Mode().IsRegular() { // others have none that are kept
		if header.PAXRecords, err = attributes(pinned.Path()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.marked && hasHoles(info) {
		if header.PAXRecords == nil {
			header.PAXRecords = map[string]string{}
		}
		header.PAXRecords[holeRecord] = "1"
	}
	if err := c.tw.WriteHeader(header); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	return c.copy(ctx, pinned, header.Size)
}

// hasHoles reports whether a file takes less room than its length.
func hasHoles(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && stat.Blocks*512 < info.Size()
}

func (c *canonicalWriter) copy(ctx context.Context, from *kernelfile.Pinned, size int64) error {
	f, err := from.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	// One that grows is not read to an end that it may never have.
	n, err := io.CopyBuffer(struct{ io.Writer }{c.tw}, contextReader{ctx, io.LimitReader(f, size+1)}, c.buf)
	if err == nil && n != size || errors.Is(err, tar.ErrWriteTooLong) {
		err = fmt.Errorf("%s changed while it was read", from.Name())
	}
	c.size += n
	return err
}

const xattrRecord = "SCHILY.xattr."

// kept reports whether an extended attribute belongs to an image. Labels and
// overlay marks are the host's own.
func kept(attribute string) bool {
	return attribute == "security.capability" || strings.HasPrefix(attribute, "user.")
}

// attributes gives the extended attributes of what a path leads to as PAX records; nil where
// there are none, or the file system has none at all.
func attributes(path string) (map[string]string, error) {
	names, err := sysx.Listxattr(path)
	if errors.Is(err, errors.ErrUnsupported) || len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list extended attributes: %w", err)
	}
	sort.Strings(names)
	var records map[string]string
	for _, name := range names {
		if !kept(name) {
			continue
		}
		value, err := sysx.Getxattr(path, name)
		if err != nil {
			return nil, fmt.Errorf("read extended attribute %s: %w", name, err)
		}
		if records == nil {
			records = map[string]string{}
		}
		records[xattrRecord+name] = string(value)
	}
	return records, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
