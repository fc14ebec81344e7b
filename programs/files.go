package programs

import "embed"

// Files are the C sources of files, which measures file operations, in the
// directory "files".
//
//go:embed files/*.c files/*.h
var Files embed.FS

// FilesFlags are the compiler's flags for it, the same as in its Makefile.
var FilesFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// FilesSources names what it is compiled from.
var FilesSources = []string{"files.c", "operations.c", "sample.c", "walk.c"}
