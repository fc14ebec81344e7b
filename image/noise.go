package image

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
)

// noise makes files of bytes that do not compress, always the same ones: ChaCha8
// is fixed by the standard library's promise, and nothing here is of floating
// point.
type noise struct {
	of   *rand.ChaCha8
	draw *rand.Rand
	buf  []byte
}

func newNoise() *noise {
	of := rand.NewChaCha8([32]byte([]byte("tare: files of noise, of one key")))
	return &noise{of: of, draw: rand.New(of), buf: make([]byte, 1<<20)}
}

// file makes one.
func (n *noise) file(root *os.Root, name string, size int64) (err error) {
	f, err := root.OpenFile(relative(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	for left := size; left > 0; {
		part := n.buf[:min(left, int64(len(n.buf)))]
		_, _ = n.of.Read(part) // never fails
		if _, err := f.Write(part); err != nil {
			return fmt.Errorf("fill %s: %w", name, err)
		}
		left -= int64(len(part))
	}
	return f.Chmod(0o644) // the umask took its share
}

// The tree's shape. Directories nest up to treeDepth deep; older ones have more in
// them, as in sources, where most files lie in few directories. A file's size is
// drawn with equal chance from each of six doublings from 256 bytes on, so that the
// mean is near 4 KiB.
const (
	treeDepth      = 7
	smallestSource = 256
	doublings      = 6
)

// tree makes a tree of so many directories, its top not counted, and files.
func (n *noise) tree(root *os.Root, top string, directories, files int) error {
	type directory struct {
		path  string
		depth int
	}
	made := []directory{{path: top}}
	// older draws an index, the lower ones more often.
	older := func() int { return min(n.draw.IntN(len(made)), n.draw.IntN(len(made))) }
	for i := range directories {
		at := made[older()]
		for at.depth >= treeDepth {
			at = made[older()]
		}
		d := directory{path.Join(at.path, treeName("part", i, "")), at.depth + 1}
		if err := root.Mkdir(relative(d.path), 0o755); err != nil {
			return err
		}
		if err := root.Chmod(relative(d.path), 0o755); err != nil { // the umask
			return err
		}
		made = append(made, d)
	}
	endings := []string{".c", ".c", ".h", ".S", ".txt"}
	for i := range files {
		name := path.Join(made[older()].path, treeName("source", i, endings[n.draw.IntN(len(endings))]))
		from := int64(smallestSource) << n.draw.IntN(doublings)
		if err := n.file(root, name, from+n.draw.Int64N(from)); err != nil {
			return err
		}
	}
	return nil
}
