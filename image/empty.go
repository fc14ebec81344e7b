package image

import (
	"context"

	"tare/programs"
)

// emptyRecipe holds one program of a few instructions, and nothing else.
var emptyRecipe = recipe{
	name:     "empty",
	summary:  "one static program without a C library, which does nothing: the floor of start-up",
	programs: []string{"/empty"},
	config:   Config{Cmd: []string{"/empty"}, WorkingDir: "/"},
	tools:    compilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		return b.compile(ctx, "empty", map[string][]byte{"empty.c": programs.Empty}, programs.EmptyFlags, "empty.c")
	},
	sources: func() ([]byte, error) { return source(programs.EmptyFlags, programs.Empty), nil },
}
