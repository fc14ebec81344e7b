package guest

import (
	"context"
	"errors"

	"tare/image"
)

// Boot is what a machine boots from. Its files are shared by all machines and are
// never written.
type Boot struct {
	// Kernel is the file to boot: a bzImage, or user-mode Linux' program.
	Kernel string
	// Initrd is the initial root, a cpio archive; empty for [UML], which mounts Root.
	Initrd string
	// Root is the machine's root disk, read-only: to be attached as the first disk,
	// with serial [RootSerial].
	Root string
	// Cmdline are the words of the kernel's command line that every machine has; the
	// engine adds its console and the order ([Order.Argument]).
	Cmdline []string
	// Release is the kernel's, as uname gives it: "6.1.0-56-cloud-amd64".
	Release string
	// Digest is over everything that the files were made of.
	Digest string
	// Warnings tell where the packages are not the locked ones.
	Warnings []string
}

// BuildOptions say what to make.
type BuildOptions struct {
	Store  *image.Store
	Kernel Kernel
	// Agent is the path of a static tare; empty is this program.
	Agent string
	// Dir keeps what was made, for the next time.
	Dir string
}

// Build makes what a machine boots from, or finds it made. The error is an
// [image.Missing] where the host cannot have it.
func Build(ctx context.Context, o BuildOptions) (Boot, error) {
	return Boot{}, errors.ErrUnsupported
}
