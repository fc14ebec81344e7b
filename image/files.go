package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tare/programs"
)

// What files' image holds, besides its program.
const (
	FilesProgram = "/usr/bin/files"
	// FilesData is where files are written and made; it is empty, so that each kind
	// of storage can lie behind it.
	FilesData = "/data"
	// FilesShelf has one file, FilesShelved, that is there before any container.
	FilesShelf   = "/shelf"
	FilesShelved = FilesShelf + "/file"
	// FilesLower has files of several sizes ([FilesLowerFiles]), each to be opened
	// for writing once.
	FilesLower = "/lower"
	// FilesTree is a tree in the proportions of a program's sources, smaller than
	// S4's so that an engine unpacks 32 of them in seconds.
	FilesTree            = "/tree"
	FilesTreeDirectories = 400
	FilesTreeFiles       = 4000
)

// FilesLowerSize is a size of the files in FilesLower, and how many have it.
type FilesLowerSize struct {
	Bytes int64
	Count int
}

// FilesLowerSizes lists them, the smallest first.
var FilesLowerSizes = []FilesLowerSize{{4 << 10, 8}, {64 << 10, 8}, {1 << 20, 4}, {16 << 20, 2}}

// FilesLowerFiles lists the files of one of these sizes.
func FilesLowerFiles(size FilesLowerSize) []string {
	var names []string
	for i := range size.Count {
		names = append(names, fmt.Sprintf("%s/size-%d-%d", FilesLower, size.Bytes, i))
	}
	return names
}

// filesRecipe holds one static program, and files made from a seed.
var filesRecipe = recipe{
	name:        "files",
	summary:     fmt.Sprintf("file operations, timed inside, and a tree of %d files in %d directories", FilesTreeFiles, FilesTreeDirectories),
	programs:    []string{FilesProgram},
	directories: []string{FilesData[1:], FilesShelf[1:], FilesLower[1:], FilesTree[1:]},
	config:      Config{Cmd: []string{FilesProgram}, WorkingDir: "/"},
	tools:       compilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		sources, err := sourcesIn(programs.Files)
		if err != nil {
			return err
		}
		if err := b.compile(ctx, FilesProgram[1:], sources, programs.FilesFlags, programs.FilesSources...); err != nil {
			return err
		}
		return fillFiles(b.root)
	},
	sources: func() ([]byte, error) {
		return sourcesOf(
			programs.Files,
			slices.Concat(programs.FilesFlags, programs.FilesSources),
			[]byte(
				fmt.Sprint(
					filesContent,
					FilesShelved,
					FilesLower,
					FilesLowerSizes,
					FilesTree,
					FilesTreeDirectories,
					FilesTreeFiles,
				),
			),
		)
	},
}

// filesContent is raised when files are made otherwise.
const filesContent = 1

// fillFiles makes the image's files. The content comes from a seed, so that no
// disk, file system or archive makes less of it than it is.
func fillFiles(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	noise := newNoise()
	if err := noise.file(root, FilesShelved, FilesLowerSizes[0].Bytes); err != nil {
		return err
	}
	for _, size := range FilesLowerSizes {
		for _, name := range FilesLowerFiles(size) {
			if err := noise.file(root, name, size.Bytes); err != nil {
				return err
			}
		}
	}
	return noise.tree(root, FilesTree, FilesTreeDirectories, FilesTreeFiles)
}

// treeName is the name of the nth file or directory of a tree, with an ending as
// sources have them.
func treeName(kind string, n int, ending string) string {
	return kind + "_" + strconv.Itoa(n) + ending
}

// relative is an absolute path inside, for a root.
func relative(path string) string { return filepath.Clean(path)[1:] }
