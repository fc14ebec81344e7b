package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"tare/image"
)

// Disks are ext4, the one file system that every kernel of ours has built in, made by
// mkfs.ext4 without mounting anything: it lays out a directory's files with their
// owners, modes, times, extended attributes and device nodes.

// ImageDisk makes a read-only disk of an image's root at path, whole. A disk that is
// there already is kept: a path is to name its image's digest, which the disk carries,
// too (as its file system's UUID), and a machine holds it to that. It is made beside
// path and renamed. The error is an [image.Missing] where the host has no mkfs.ext4,
// and an [image.Full].
func ImageDisk(ctx context.Context, img image.Image, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := rootDisk(ctx, img.Root, uuidOf(img.Digest), path); err != nil {
		return fmt.Errorf("making a disk of image %s: %w", img.Name, err)
	}
	return nil
}

// ScratchDisk makes an empty disk of that size at path, sparse. It must not be there
// already.
func ScratchDisk(ctx context.Context, path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making a scratch disk: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("making a scratch disk: %w", err)
	}
	// What is not initialised now stays so (the machine mounts with noinit_itable): a
	// thread of the kernel's that writes inode tables would be measured with programs.
	if err := makeExt4(ctx, path, "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"); err != nil {
		return fmt.Errorf("making a scratch disk of %d bytes: %w", size, err)
	}
	return nil
}

// rootDisk makes a disk of a directory, beside path, and renames it.
func rootDisk(ctx context.Context, root, uuid, path string) (err error) {
	t, err := measure(root)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".disk-*")
	if err != nil {
		return err
	}
	part := f.Name()
	_ = f.Close()
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	size := t.size()
	// What the file system takes for itself is known well, not exactly.
	for range 3 {
		if err = os.Truncate(part, 0); err == nil {
			err = os.Truncate(part, size)
		}
		if err != nil {
			return err
		}
		err = makeExt4(ctx, part, "-d", root, "-U", uuid, "-N", strconv.FormatInt(t.inodes+64, 10), "-m", "0",
			"-O", "^has_journal,^resize_inode", "-E", "hash_seed="+uuid+",lazy_itable_init=0,root_owner=0:0,nodiscard")
		var full *tooSmall
		if !errors.As(err, &full) {
			break
		}
		size += size / 2
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(part, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// tree is what a directory's files take.
type tree struct{ inodes, blocks int64 }

const blockSize = 4096

// measure counts what a file system needs for the files below a directory.
func measure(root string) (tree, error) {
	var t tree
	linked := map[[2]uint64]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !d.IsDir() {
			id := [2]uint64{uint64(st.Dev), st.Ino}
			if linked[id] {
				return nil
			}
			linked[id] = true
		}
		t.inodes++
		switch {
		case d.IsDir():
			entries, err := os.ReadDir(name)
			if err != nil {
				return err
			}
			// An entry is 8 bytes and its name, and blocks are never quite full.
			t.blocks += 1 + int64(len(entries))*64/blockSize
		case d.Type().IsRegular():
			t.blocks += (info.Size() + blockSize - 1) / blockSize
		default:
			t.blocks++ // of a long link, or of attributes
		}
		return nil
	})
	return t, err
}

// size is that of a disk with room for it: inodes of 256 bytes, a block in a hundred
// for extents and attributes, and what groups of blocks take for themselves.
func (t tree) size() int64 {
	blocks := t.blocks + t.blocks/50 + (t.inodes+64)/16 + 2048
	return blocks * blockSize
}

// tooSmall says that the files do not fit.
type tooSmall struct{ said string }

func (t *tooSmall) Error() string { return "mkfs.ext4: the disk is too small: " + t.said }

// makeExt4 makes a file system in a file of its full size.
func makeExt4(ctx context.Context, path string, args ...string) error {
	program, err := findExt4()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(
		ctx,
		program,
		append(append([]string{"-q", "-F", "-b", strconv.Itoa(blockSize)}, args...), path)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text := strings.TrimSpace(said.String())
		switch {
		case strings.Contains(text, "Could not allocate"),
			strings.Contains(text, "bigger than"),
			strings.Contains(text, "No free space"),
			strings.Contains(text, "No space left in ext2"):
			return &tooSmall{text}
		case strings.Contains(text, "No space left on device"):
			return &image.Full{Dir: filepath.Dir(path), Err: fmt.Errorf("mkfs.ext4: %w: %s", err, text)}
		}
		return fmt.Errorf("mkfs.ext4: %w: %s", err, text)
	}
	return nil
}

// findExt4 looks for the program also where PATH of an ordinary user does not.
func findExt4() (string, error) {
	for _, name := range []string{"mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", &image.Missing{What: "no mkfs.ext4 on this host, which makes the disks of virtual machines", Mend: "apt-get install e2fsprogs"}
}

// uuidOf makes a UUID of a digest (version 8 of RFC 9562, its own bits).
func uuidOf(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// Where an ext4 file system has its UUID: Documentation/filesystems/ext4/super.rst.
const (
	superblock     = 1024
	superblockSize = 1024
	magicAt        = 0x38
	uuidAt         = 0x68
)

// readUUID reads the UUID of a disk's ext4 file system.
func readUUID(disk string) (string, error) {
	f, err := os.Open(disk)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, superblockSize)
	if _, err := f.ReadAt(head, superblock); err != nil {
		return "", fmt.Errorf("%s: %w", disk, err)
	}
	if head[magicAt] != 0x53 || head[magicAt+1] != 0xef {
		return "", fmt.Errorf("%s holds no ext4 file system", disk)
	}
	text := hex.EncodeToString(head[uuidAt : uuidAt+16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"), nil
}
