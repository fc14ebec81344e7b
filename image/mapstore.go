package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"tare/programs"
)

// mapstoreRecipe holds a database on memory-mapped storage, one static program of
// ours on LMDB, and a store that it made: so the data are there, below the layer
// that a container writes to, before it starts, and all containers of the image map
// the same file.
var mapstoreRecipe = mapstoreOf(MapstoreData)

func mapstoreOf(mebibytes int) recipe {
	return recipe{
		name:        "mapstore",
		summary:     fmt.Sprintf("database on memory-mapped storage (LMDB), and a store of %d MiB", mebibytes),
		programs:    []string{"/" + mapstoreProgram},
		directories: []string{"data"},
		config: Config{
			Cmd:        []string{"/" + mapstoreProgram, "serve", "--port", strconv.Itoa(mapstorePort), MapstoreFile},
			WorkingDir: "/data",
			Ports:      []int{mapstorePort},
		},
		tools: lmdbCompilerRecipe.name,
		add:   func(ctx context.Context, b *build) error { return addMapstore(ctx, b, mebibytes) },
		sources: func() ([]byte, error) {
			sources, err := mapstoreSources()
			if err != nil {
				return nil, err
			}
			parts := [][]byte{[]byte(strconv.Itoa(mebibytes))}
			for _, name := range sortedKeys(sources) {
				parts = append(parts, sources[name])
			}
			return source(
				slices.Concat(programs.MapstoreFlags, programs.MapstoreSources, programs.MapstoreLibraries),
				parts...), nil
		},
	}
}

// lmdbCompilerRecipe is the compiler with LMDB beside it.
var lmdbCompilerRecipe = recipe{
	name:     "compiler-lmdb",
	packages: append([]string{"liblmdb-dev"}, compilerRecipe.packages...),
	programs: compilerRecipe.programs,
	keep:     compilerRecipe.keep,
}

// What mapstore's image holds: its records' fields, in MiB, and where their store
// lies.
const (
	MapstoreData = 64
	MapstoreFile = "/store.mdb"

	mapstoreProgram = "usr/bin/mapstore"
	mapstorePort    = 6379
)

func addMapstore(ctx context.Context, b *build, mebibytes int) error {
	sources, err := mapstoreSources()
	if err != nil {
		return err
	}
	compiled := slices.Concat(programs.MapstoreSources, programs.MapstoreLibraries)
	if err := b.compile(ctx, mapstoreProgram, sources, programs.MapstoreFlags, compiled...); err != nil {
		return err
	}
	generate := []string{"/" + mapstoreProgram, "generate", "--data", strconv.Itoa(mebibytes), MapstoreFile}
	if _, err = b.chroot(ctx, b.root, nil, generate...); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	return os.Chmod(filepath.Join(b.root, MapstoreFile), 0o644) // the umask took its share
}

// mapstoreSources gives the program's sources, by name.
func mapstoreSources() (map[string][]byte, error) {
	sources := map[string][]byte{}
	names, err := fs.Glob(programs.Mapstore, "mapstore/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if sources[path.Base(name)], err = programs.Mapstore.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return sources, nil
}
