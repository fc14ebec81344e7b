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

// The functions' images each hold one static program and an input for it,
// which the program itself makes from a seed: so the file is there, with pages
// in the page cache, before a container starts, as an input of real work is.
var (
	uriParserRecipe = uriParserOf(FunctionInput)
	hashingRecipe   = hashingOf(FunctionInput)
)

// FunctionInput is the size of a function's input in MiB.
const FunctionInput = 32

// functionFile is where it lies.
const functionFile = "/input"

func uriParserOf(mebibytes int) recipe {
	return functionRecipe("uri-parser", "uri_parser.c", "function that splits URIs into tokens", mebibytes)
}

func hashingOf(mebibytes int) recipe {
	return functionRecipe("hashing", "hashing.c", "function that hashes keys to indexes", mebibytes)
}

func functionRecipe(name, file, summary string, mebibytes int) recipe {
	program := path.Join("usr/bin", name)
	size := strconv.Itoa(mebibytes)
	return recipe{
		name:        name,
		summary:     summary + ", and an input of " + size + " MiB",
		programs:    []string{"/" + program},
		directories: []string{"data"},
		config:      Config{Cmd: []string{"/" + program, functionFile}, WorkingDir: "/"},
		tools:       compilerRecipe.name,
		add: func(ctx context.Context, b *build) error {
			sources, err := sourcesIn(programs.Functions)
			if err != nil {
				return err
			}
			compiled := append([]string{file}, programs.FunctionSources...)
			if err := b.compile(ctx, program, sources, programs.FunctionFlags, compiled...); err != nil {
				return err
			}
			if _, err = b.chroot(ctx, b.root, nil, "/"+program, "generate", "--data", size, functionFile); err != nil {
				return fmt.Errorf("make the input: %w", err)
			}
			return os.Chmod(filepath.Join(b.root, functionFile), 0o644) // the umask took its share
		},
		sources: func() ([]byte, error) {
			return sourcesOf(
				programs.Functions,
				slices.Concat(programs.FunctionFlags, programs.FunctionSources),
				[]byte(size),
			)
		},
	}
}

// sourcesIn gives a program's sources, by name: the files of its one directory.
func sourcesIn(program fs.FS) (map[string][]byte, error) {
	sources := map[string][]byte{}
	names, err := fs.Glob(program, "*/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if sources[path.Base(name)], err = fs.ReadFile(program, name); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// sourcesOf joins sources for a recipe's key, with what else decides the image.
func sourcesOf(program fs.FS, arguments []string, parts ...[]byte) ([]byte, error) {
	sources, err := sourcesIn(program)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(sources) {
		parts = append(parts, sources[name])
	}
	return source(arguments, parts...), nil
}
