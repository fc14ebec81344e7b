package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// bundle gives the parts of a foreign image (manifests, configurations,
// layers) by the names that the image uses for them.
type bundle interface {
	// open gives a part and its length; fs.ErrNotExist where it has none.
	open(name string) (io.ReadCloser, int64, error)
	close()
}

// directory is an OCI layout directory. Parts are looked up without leaving
// it, whatever links it holds.
type directory struct{ root *os.Root }

func openDirectory(dir string) (*directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &directory{root}, nil
}

func (d *directory) open(name string) (io.ReadCloser, int64, error) {
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := d.root.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a file", name)
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (d *directory) close() { _ = d.root.Close() }

// tarFile is a tar whose parts are read in place. Nothing of it is unpacked.
type tarFile struct {
	file    *os.File
	parts   map[string]part
	aliases map[string]string // links, which older engines use for layers that occur twice
}

type part struct{ offset, size int64 }

// openTarFile reads the names in a tar. The file stays the caller's.
func openTarFile(ctx context.Context, source string, file *os.File, limits Limits) (*tarFile, error) {
	t := &tarFile{file: file, parts: map[string]part{}, aliases: map[string]string{}}
	refuse := func(entry, format string, args ...any) error {
		return &Refused{Archive: source, Entry: entry, Reason: fmt.Sprintf(format, args...)}
	}
	// Only names are read here, by the rules that also hold for layers.
	names := &unpacker{source: source, budget: &budget{Limits: limits}}
	// tar.Reader skips content by seeking, so that this costs one read an entry.
	tr := tar.NewReader(file)
	last := ""
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := tr.Next()
		if err == io.EOF {
			return t, nil
		}
		if errors.Is(err, tar.ErrHeader) && last == "" {
			return nil, refuse("", "not a tar archive")
		}
		if err != nil {
			return nil, names.broken(last, err)
		}
		last = h.Name
		if err := names.budget.entry(h.Name); err != nil {
			return nil, refuse(h.Name, "%s", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := names.cleanName(h.Name, h.Name, "its name")
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if _, twice := t.parts[name]; twice || t.aliases[name] != "" {
			return nil, refuse(h.Name, "stands twice")
		}
		if declaresHoles(h) {
			return nil, refuse(h.Name,
				"stored as a sparse file, which is not read in place: pack the archive without --sparse (-S)")
		}
		switch h.Typeflag {
		case tar.TypeReg:
			offset, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			t.parts[name] = part{offset, h.Size}
		case tar.TypeSymlink, tar.TypeLink:
			target := h.Linkname
			if h.Typeflag == tar.TypeSymlink && !path.IsAbs(target) {
				target = path.Join(path.Dir(name), target)
			}
			if path.IsAbs(target) || climbs(".", target) {
				return nil, refuse(h.Name, "a link out of the archive, to %q", h.Linkname)
			}
			t.aliases[name] = path.Clean(target)
		default:
			return nil, refuse(h.Name, "neither a file nor a directory nor a link")
		}
	}
}

func (t *tarFile) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	for followed := 0; t.aliases[name] != ""; followed++ {
		if followed == mostLinks {
			return nil, 0, fmt.Errorf("more than %d links", mostLinks)
		}
		name = t.aliases[name]
	}
	p, ok := t.parts[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(t.file, p.offset, p.size)), p.size, nil
}

func (t *tarFile) close() {}

// document reads a small part whole.
func document(b bundle, source, name string, limits Limits) ([]byte, error) {
	r, size, err := b.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Refused{Archive: source, Entry: name, Reason: "named, but not there"}
	}
	if err != nil {
		return nil, &Refused{Archive: source, Entry: name, Reason: strings.TrimSpace(err.Error())}
	}
	defer r.Close()
	if size > limits.Document {
		return nil, &Refused{Archive: source, Entry: name, Reason: fmt.Sprintf("longer than %d bytes", limits.Document)}
	}
	data, err := io.ReadAll(io.LimitReader(r, limits.Document+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != size {
		return nil, &Refused{Archive: source, Entry: name, Reason: fmt.Sprintf("cut off after %d of %d bytes", len(data), size)}
	}
	return data, nil
}
