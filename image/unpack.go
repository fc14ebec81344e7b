package image

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/containerd/continuity/devices"
	"github.com/containerd/continuity/sysx"

	"tare/kernel/filesystem"
)

// unpacker writes the entries of tar streams, one upon another, below one
// directory and nowhere else.
//
// Links inside the tree are followed as the kernel would follow them for a
// program that has the tree as its root, one component at a time; which links,
// [unpacker.resolve] says. Each step is taken relative to an open directory
// ([os.Root]), so that no entry can make another land outside.
type unpacker struct {
	source string // named by refusals
	root   *os.Root
	budget *budget
	trust  trust
	skip   func(name string) bool // entries left out; nil keeps all

	parent     *os.Root // the directory that the last entry was written to
	parentFile *os.File // the same
	parentName string   // as the archive named it
	parentPath string   // resolved
	buf        []byte
	likeMarks  []string        // names that engines take for removal marks, and this tree does not
	fresh      map[string]bool // resolved paths that the present layer wrote
	shelter    map[string]bool // directories above those
	cleared    map[string]bool // directories in which nothing of lower layers is left
}

// trust says what a source may contain.
type trust int

const (
	// foreign layers have whiteouts; a directory replaces whatever was there.
	foreign trust = iota
	// distribution packages share directories that the root has as links
	// (/lib to /usr/lib), and '.wh.' means nothing in them.
	distribution
	// copied trees are the user's own: '.wh.' means nothing in them.
	copied
)

// The kernel keeps 2^32-1 for "no user".
const greatestID = 1<<32 - 2

// Most links that one name may lead through; the kernel's own bound.
const mostLinks = 40

// Longest name and link target, the kernel's PATH_MAX and NAME_MAX.
const (
	longestPath = 4096
	longestName = 255
)

// hostPath is how much longer the path of a root may become, where an instance has it.
const hostPath = 128

const (
	whiteout       = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutMeta   = ".wh..wh."
)

func newUnpacker(source, dir string, b *budget, t trust) (*unpacker, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{source: source, root: root, budget: b, trust: t, buf: make([]byte, 256<<10)}, nil
}

func (u *unpacker) close() {
	u.leaveParent()
	_ = u.root.Close()
}

func (u *unpacker) refuse(entry, format string, args ...any) error {
	return &Refused{Archive: u.source, Entry: entry, Reason: fmt.Sprintf(format, args...)}
}

// layer unpacks one tar stream upon what is there.
func (u *unpacker) layer(ctx context.Context, r io.Reader) error {
	u.fresh, u.shelter, u.cleared = map[string]bool{}, map[string]bool{}, map[string]bool{}
	u.leaveParent()
	tr := tar.NewReader(r)
	content := contextReader{ctx, tr} // a hole is long, and nothing is read for it
	last := ""
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return u.broken(last, err)
		}
		last = h.Name
		if err := u.budget.entry(h.Name); err != nil {
			return u.refuse(h.Name, "%s", err)
		}
		if err := u.entry(h, content); err != nil {
			return u.explain(h.Name, err)
		}
	}
}

// broken names what is wrong with a tar stream after the entry last.
func (u *unpacker) broken(last string, err error) error {
	var large *tooLarge
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &large):
		return u.refuse(last, "%s", large.reason)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return u.refuse(last, "the archive ends in the middle of it, or right after it")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case last == "":
		return u.refuse("", "its first entry cannot be read: %s", err)
	}
	return u.refuse(last, "what follows it cannot be read: %s", err)
}

// explain turns the reader's errors into refusals and leaves the host's alone.
func (u *unpacker) explain(name string, err error) error {
	var refused *Refused
	var large *tooLarge
	var source *sourceError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &large):
		return u.refuse(name, "%s", large.reason)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return u.refuse(name, "the archive ends in the middle of it")
	case errors.Is(err, tar.ErrHeader), errors.As(err, &source):
		return u.refuse(name, "%s", err)
	}
	return fmt.Errorf("unpack %s: entry %q: %w", u.source, name, err)
}

// cleanName checks an entry's name and gives it without leading "/" or "./" and trailing '/';
// "." is the root itself.
func (u *unpacker) cleanName(entry, name, what string) (string, error) {
	switch {
	case name == "":
		return "", u.refuse(entry, "%s is empty", what)
	case strings.ContainsRune(name, 0):
		return "", u.refuse(entry, "%s holds a zero byte", what)
	case len(name) > longestPath:
		return "", u.refuse(entry, "%s is longer than %d bytes", what, longestPath)
	}
	// Absolute names are meant within the root: so engines take them, and some builders
	// write no others.
	name = strings.TrimLeft(name, "/")
	parts := strings.Split(name, "/")
	if len(parts) > u.budget.Depth {
		return "", u.refuse(entry, "%s is deeper than %d directories", what, u.budget.Depth)
	}
	for _, p := range parts {
		if p == ".." {
			return "", u.refuse(entry, "%s leads upwards", what)
		}
		if len(p) > longestName {
			return "", u.refuse(entry, "%s has a part longer than %d bytes", what, longestName)
		}
	}
	return path.Clean(name), nil
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil // such as git's comment: nothing that lands in the tree
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeGNUSparse:
	case tar.TypeChar, tar.TypeBlock:
		if u.trust == distribution || !isStandardNode(h) {
			return u.refuse(h.Name, "a device node")
		}
	default:
		return u.refuse(h.Name, "of unknown type %q", h.Typeflag)
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid > greatestID || h.Gid > greatestID {
		return u.refuse(h.Name, "owned by %d:%d, which is no user", h.Uid, h.Gid)
	}
	name, err := u.cleanName(h.Name, h.Name, "its name")
	if err != nil {
		return err
	}
	if u.skip != nil && u.skip(name) {
		return nil
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return u.refuse(h.Name, "would replace the root directory")
		}
		return nil // the root directory's mode and owner are ours
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)

	if u.trust == foreign && strings.HasPrefix(base, whiteout) {
		return u.whiteout(h.Name, dir, base)
	}
	if strings.HasPrefix(base, whiteout) {
		u.likeMarks = append(u.likeMarks, name)
	}
	if err := u.enterParent(h.Name, dir); err != nil {
		return err
	}
	at := path.Join(u.parentPath, base)
	if err := u.fits(h.Name, at); err != nil {
		return err
	}
	if err := u.clearWay(h, base); err != nil {
		return err
	}
	if err := u.make(h, base, content); err != nil {
		return err
	}
	u.mark(at)
	return nil
}

// fits refuses a path that the host could not open: links let a short name lead deep.
func (u *unpacker) fits(entry, resolved string) error {
	if depth := strings.Count(resolved, "/") + 1; depth > u.budget.Depth {
		return u.refuse(entry, "it lands deeper than %d directories", u.budget.Depth)
	}
	if most := longestPath - len(u.root.Name()) - hostPath; len(resolved) > most {
		return u.refuse(entry, "its path of %d bytes is too long: %d are left below the image's directory",
			len(resolved), most)
	}
	return nil
}

// make makes the entry in the present parent directory.
func (u *unpacker) make(h *tar.Header, base string, content io.Reader) error {
	mode := h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		if err := u.file(h, base, mode, content); err != nil {
			return err
		}
	case tar.TypeDir:
		if err := u.parent.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := u.own(h, base, mode); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := u.symlink(h, base); err != nil {
			return err
		}
	case tar.TypeLink:
		return u.hardlink(h, base) // owner and attributes are the target's
	case tar.TypeFifo, tar.TypeChar:
		kind := h.FileInfo().Mode() & (fs.ModeNamedPipe | fs.ModeDevice | fs.ModeCharDevice)
		if err := devices.Mknod(u.inParent(base), kind|0o600, int(h.Devmajor), int(h.Devminor)); err != nil {
			return err
		}
		if err := u.own(h, base, mode); err != nil {
			return err
		}
	}
	return u.setAttributes(h, base)
}

func (u *unpacker) file(h *tar.Header, base string, mode fs.FileMode, content io.Reader) (err error) {
	f, err := u.parent.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if err := u.fill(f, content, declaresHoles(h)); err != nil {
		return err
	}
	// The owner first: changing it clears the setuid bits.
	if err := f.Chown(h.Uid, h.Gid); err != nil {
		return err
	}
	return f.Chmod(mode)
}

// fill writes a file's content. Holes count as content: engines, which know none, write
// them out, and digests go over them.
func (u *unpacker) fill(f *os.File, content io.Reader, hasHoles bool) error {
	if !hasHoles {
		return u.copy(f, content)
	}
	sparse := &holeWriter{file: f}
	buffered := bufio.NewWriterSize(sparse, len(u.buf)) // a tar's reader gives a sparse file in small pieces
	if err := u.copy(buffered, content); err != nil {
		return err
	}
	return errors.Join(buffered.Flush(), sparse.finish())
}

func (u *unpacker) copy(out io.Writer, content io.Reader) error {
	for {
		n, rerr := content.Read(u.buf)
		if err := u.budget.take(int64(n)); err != nil {
			return &tooLarge{err.Error()}
		}
		if _, err := out.Write(u.buf[:n]); err != nil {
			return err
		}
		if rerr == io.EOF {
			return nil
		}
		if rerr != nil {
			return &sourceError{rerr}
		}
	}
}

func (u *unpacker) own(h *tar.Header, base string, mode fs.FileMode) error {
	if err := u.parent.Lchown(base, h.Uid, h.Gid); err != nil {
		return err
	}
	return u.parent.Chmod(base, mode)
}

// symlink makes a symbolic link. An absolute one is taken by programs inside
// relative to their root and so is harmless there; a relative one that climbs
// above the root leads out for whoever reads the tree from the host.
func (u *unpacker) symlink(h *tar.Header, base string) error {
	switch target := h.Linkname; {
	case target == "":
		return u.refuse(h.Name, "a link to nothing")
	case len(target) >= longestPath || strings.ContainsRune(target, 0):
		return u.refuse(h.Name, "a link whose target is no path")
	case !path.IsAbs(target) && climbs(u.parentPath, target):
		return u.refuse(h.Name, "a link out of the root, to %q", target)
	}
	if err := u.parent.Symlink(h.Linkname, base); err != nil {
		return err
	}
	return u.parent.Lchown(base, h.Uid, h.Gid)
}

// climbs reports whether the text of target, seen from dir, names something above
// the root. It sees no links on the way; refuseClimbingLinks does, in the
// finished tree.
func climbs(dir, target string) bool {
	at := path.Join(dir, target)
	return at == ".." || strings.HasPrefix(at, "../")
}

func (u *unpacker) hardlink(h *tar.Header, base string) error {
	target, err := u.cleanName(h.Name, h.Linkname, "the target of the hard link")
	if err != nil {
		return err
	}
	at := path.Join(u.parentPath, base)
	dir, targetBase := path.Split(target)
	resolved, err := u.resolve(h.Name, path.Clean(dir), false)
	if errors.Is(err, fs.ErrNotExist) {
		return u.refuse(h.Name, "a hard link to %q, which is not there", h.Linkname)
	}
	if err != nil {
		return err
	}
	from := path.Join(resolved, targetBase)
	info, err := u.root.Lstat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.refuse(h.Name, "a hard link to %q, which is not there", h.Linkname)
	case err != nil:
		return err
	case info.IsDir():
		return u.refuse(h.Name, "a hard link to the directory %q", h.Linkname)
	}
	return u.root.Link(from, at)
}

func (u *unpacker) setAttributes(h *tar.Header, base string) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrRecord)
		if !ok || !kept(name) {
			continue
		}
		if err := u.budget.take(int64(len(value))); err != nil {
			return &tooLarge{err.Error()}
		}
		// Through the open directory, so that no link is followed on the way.
		err := sysx.LSetxattr(u.inParent(base), name, []byte(value), 0)
		isImpossible := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission)
		if err != nil && !(isImpossible && strings.HasPrefix(name, "user.")) {
			return u.attributeFailed(h.Name, name, len(value), err)
		}
	}
	return nil
}

// attributeFailed distinguishes an attribute that cannot be stored from a full disk. To ext4, one
// that is too long is a lack of space, too.
func (u *unpacker) attributeFailed(entry, name string, length int, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		const enough = 1 << 20 // the kernel takes 64 KiB
		if disk, derr := filesystem.At(u.root.Name()); derr != nil || disk.Free < enough {
			return fmt.Errorf("set %s: %w", name, err)
		}
		err = errors.New("too long for the file system")
	}
	return u.refuse(entry, "its extended attribute %q of %d bytes cannot be stored here: %s", name, length, err)
}

// clearWay removes what stands where the entry goes, except a directory that
// the entry would make again.
func (u *unpacker) clearWay(h *tar.Header, base string) error {
	info, err := u.parent.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		if info.IsDir() {
			return nil
		}
		if u.trust == distribution && info.Mode()&fs.ModeSymlink != 0 {
			if at, err := u.parent.Stat(base); err == nil && at.IsDir() {
				return nil
			}
		}
	}
	if h.Typeflag == tar.TypeLink && path.Clean(h.Linkname) == path.Join(u.parentPath, base) {
		return u.refuse(h.Name, "a hard link to itself")
	}
	return u.parent.RemoveAll(base)
}

// whiteout applies a removal mark (OCI image layer specification, "Whiteouts"):
// it hides what lower layers have, never what its own layer brings, wherever
// in the layer it stands. The directory that it stands in becomes the layer's, as in
// engines.
func (u *unpacker) whiteout(entry, dir, base string) error {
	u.leaveParent() // it may be removed
	resolved, err := u.resolve(entry, dir, true)
	if err != nil {
		return err
	}
	if base == whiteoutOpaque {
		return u.removeLower(resolved, true)
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return nil // aufs' own bookkeeping
	}
	hidden := strings.TrimPrefix(base, whiteout)
	if hidden == "" || hidden == "." || hidden == ".." {
		return u.refuse(entry, "a removal mark that names nothing")
	}
	return u.removeLower(path.Join(resolved, hidden), false)
}

// removeLower removes at (or only what is in it), but for what the present
// layer wrote.
func (u *unpacker) removeLower(at string, contentOnly bool) error {
	info, err := u.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !u.fresh[at] && !contentOnly && !u.shelter[at] {
		return u.root.RemoveAll(at)
	}
	if !info.IsDir() || u.cleared[at] {
		return nil
	}
	u.cleared[at] = true
	names, err := readNames(u.root, at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.removeLower(path.Join(at, name), false); err != nil {
			return err
		}
	}
	return nil
}

// mark enters a path as written by the present layer.
func (u *unpacker) mark(resolved string) {
	u.fresh[resolved] = true
	for d := path.Dir(resolved); !u.shelter[d]; d = path.Dir(d) {
		u.shelter[d] = true
	}
}

func readNames(root *os.Root, at string) ([]string, error) {
	d, err := root.Open(at)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// enterParent makes dir the directory that entries are written to. Successive
// entries mostly share theirs, so it is kept open.
func (u *unpacker) enterParent(entry, dir string) error {
	if u.parent != nil && u.parentName == dir {
		return nil
	}
	u.leaveParent()
	resolved, err := u.resolve(entry, dir, true)
	if err != nil {
		return err
	}
	parent, err := u.root.OpenRoot(resolved)
	if err != nil {
		return err
	}
	file, err := u.root.Open(resolved)
	if err != nil {
		_ = parent.Close()
		return err
	}
	u.parent, u.parentFile, u.parentName, u.parentPath = parent, file, dir, resolved
	return nil
}

func (u *unpacker) leaveParent() {
	if u.parent == nil {
		return
	}
	_ = u.parent.Close()
	_ = u.parentFile.Close()
	u.parent, u.parentFile, u.parentName, u.parentPath = nil, nil, "", ""
}

// inParent is a path to a name in the open parent directory, for calls that
// [os.Root] has no method for.
func (u *unpacker) inParent(base string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", u.parentFile.Fd(), base)
}

// resolve follows dir from the root as a program inside would, and gives a
// path without links. Missing directories are made where make is set, but
// never behind a link: a link that leads to where the archive has nothing was
// meant for the host.
//
// A foreign layer's names lead through its own links alone. What lower layers have in
// the way and is no directory gives place to one: engines unpack each layer by itself,
// and lay it over the others.
func (u *unpacker) resolve(entry, dir string, make bool) (string, error) {
	w := walk{root: u.root}
	defer w.top()
	rest := strings.Split(dir, "/")
	followed, through := 0, ""
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			if !w.up() {
				return "", u.refuse(entry, "written through %q, a link out of the root", through)
			}
			continue
		}
		step := path.Join(w.at(), next)
		info, err := w.dir().Lstat(next)
		hides := make && err == nil && u.trust == foreign && !info.IsDir() && !u.fresh[step]
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG)) && through != "":
			return "", u.refuse(entry, "written through %q, a link to what is not in the root", through)
		case errors.Is(err, fs.ErrNotExist) && make, hides:
			if err := u.makeParent(entry, w.dir(), step, hides); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if followed++; followed > mostLinks {
				return "", u.refuse(entry, "written through more than %d links", mostLinks)
			}
			target, err := w.dir().Readlink(next)
			if err != nil {
				return "", err
			}
			through = step
			if path.IsAbs(target) {
				w.top()
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		case !info.IsDir():
			return "", u.refuse(entry, "%q above it is not a directory", step)
		}
		if err := w.down(next); err != nil {
			return "", err
		}
	}
	return w.at(), nil
}

// makeParent makes a directory that no entry brings. It counts as one: a name may need
// hundreds.
func (u *unpacker) makeParent(entry string, in *os.Root, at string, hides bool) error {
	if err := u.budget.entry(at); err != nil {
		return u.refuse(entry, "%s", err)
	}
	if err := u.fits(entry, at); err != nil {
		return err
	}
	name := path.Base(at)
	if hides {
		if err := in.Remove(name); err != nil {
			return err
		}
	}
	u.mark(at)
	return makeDirectory(in, name)
}

// makeDirectory makes a directory that everyone may read, whatever the umask.
func makeDirectory(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// makeDirectories makes name and those above it that are not there.
func makeDirectories(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := makeDirectories(root, path.Dir(name)); err != nil {
		return err
	}
	if err := makeDirectory(root, name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
