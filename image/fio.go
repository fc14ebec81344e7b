package image

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// FioData is the size of the file that fio reads, in MiB.
const FioData = 64

// fioFile is where it lies.
const fioFile = "file"

// fioRecipe holds fio and a file to read. The file is full of data: pages of a
// hole would be the page cache's all the same, but none would have been read.
var fioRecipe = fioOf(FioData)

func fioOf(mebibytes int) recipe {
	return recipe{
		name:        "fio",
		summary:     fmt.Sprintf("fio, and a file of %d MiB for it to read", mebibytes),
		packages:    []string{"fio"},
		programs:    []string{"/usr/bin/fio"},
		directories: []string{"data"},
		config:      Config{Cmd: []string{"/usr/bin/fio", "--version"}, WorkingDir: "/data"},
		add:         func(_ context.Context, b *build) error { return b.writeDrawn(fioFile, int64(mebibytes)<<20) },
		sources:     func() ([]byte, error) { return []byte(fioFile + " " + strconv.Itoa(mebibytes)), nil },
	}
}

// writeDrawn writes a file of bytes drawn from a fixed seed.
func (b *build) writeDrawn(name string, size int64) (err error) {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.CopyN(f, rand.NewChaCha8([32]byte{2}), size); err != nil {
		_ = f.Close() // the first error says more
		return fmt.Errorf("write /%s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return root.Chmod(name, 0o644) // the umask took its share
}
