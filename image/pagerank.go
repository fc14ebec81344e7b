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

// PageRankGraph is the size of the edges of pagerank's graph in MiB, of which
// each has 8 bytes; PageRankDegree how many edges a vertex has in the mean.
const (
	PageRankGraph  = 64
	PageRankDegree = 16
)

// pageRankFile is where the graph lies.
const pageRankFile = "/graph"

// pageRankRecipe holds one static program, and a graph that it made from a seed.
var pageRankRecipe = pageRankOf(PageRankGraph)

func pageRankOf(mebibytes int) recipe {
	size := []string{"--data", strconv.Itoa(mebibytes), "--degree", strconv.Itoa(PageRankDegree)}
	return recipe{
		name:        "pagerank",
		summary:     fmt.Sprintf("PageRank with its vertices mapped and its edges read, and a graph of %d MiB", mebibytes),
		programs:    []string{"/usr/bin/pagerank"},
		directories: []string{"data"},
		config:      Config{Cmd: []string{"/usr/bin/pagerank", "--vertices", "/data/vertices", pageRankFile}, WorkingDir: "/"},
		tools:       compilerRecipe.name,
		add: func(ctx context.Context, b *build) error {
			sources, err := sourcesIn(programs.PageRank)
			if err != nil {
				return err
			}
			if err := b.compile(ctx, "usr/bin/pagerank", sources, programs.PageRankFlags, programs.PageRankSources...); err != nil {
				return err
			}
			make := append([]string{"/usr/bin/pagerank", "generate"}, size...)
			if _, err := b.chroot(ctx, b.root, nil, append(make, pageRankFile)...); err != nil {
				return fmt.Errorf("make the graph: %w", err)
			}
			return os.Chmod(filepath.Join(b.root, pageRankFile), 0o644) // the umask took its share
		},
		sources: func() ([]byte, error) {
			return sourcesOf(
				programs.PageRank,
				slices.Concat(programs.PageRankFlags, programs.PageRankSources, size),
			)
		},
	}
}
