package programs

import "embed"

// Mapstore are the C sources of the database on memory-mapped storage, in the
// directory "mapstore".
//
//go:embed mapstore/*.c mapstore/*.h
var Mapstore embed.FS

// MapstoreFlags are the compiler's flags for it, the same as in its Makefile.
var MapstoreFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}

// MapstoreSources names what is compiled, and MapstoreLibraries what that is linked
// with.
var (
	MapstoreSources   = []string{"mapstore.c", "record.c", "serve.c", "store.c"}
	MapstoreLibraries = []string{"-llmdb"}
)
