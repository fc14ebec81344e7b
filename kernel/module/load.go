package module

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Load loads a module from its file, which is not compressed, with its parameters. One
// that is loaded already, or is built in, stays as it is.
func Load(file, parameters string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), parameters, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "load module", Path: file, Err: err}
	}
	return nil
}
