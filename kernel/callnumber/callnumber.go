// Package callnumber says which system calls look up a file by its name, by their numbers on
// this architecture.
package callnumber

import (
	"maps"

	"golang.org/x/sys/unix"
)

// What a call does, as bits.
const (
	LooksUp = 1 << iota
	Opens
	// InDirectory means that its first argument is a directory's descriptor and its second the
	// name; of others the name comes first.
	InDirectory
)

// Lookups is what each call does that looks up a file.
func Lookups() map[int]uint8 {
	all := map[int]uint8{
		unix.SYS_OPENAT:     LooksUp | Opens | InDirectory,
		unix.SYS_OPENAT2:    LooksUp | Opens | InDirectory,
		unix.SYS_NEWFSTATAT: LooksUp | InDirectory,
		unix.SYS_STATX:      LooksUp | InDirectory,
		unix.SYS_FACCESSAT:  LooksUp | InDirectory,
		unix.SYS_FACCESSAT2: LooksUp | InDirectory,
		unix.SYS_READLINKAT: LooksUp | InDirectory,
		unix.SYS_EXECVE:     LooksUp,
	}
	maps.Copy(all, older)
	return all
}
