package image

import (
	"context"

	"tare/programs"
)

// streamRecipe holds one static program, compiled inside a root of its own
// from locked packages, so that neither the host's compiler nor its C library
// decides what is measured.
var streamRecipe = recipe{
	name:     "stream",
	summary:  "memory bandwidth by the copy, scale, add and triad kernels",
	programs: []string{"/usr/bin/stream"},
	config:   Config{Cmd: []string{"/usr/bin/stream"}, WorkingDir: "/"},
	tools:    compilerRecipe.name,
	add:      compileStream,
	sources:  func() ([]byte, error) { return source(programs.StreamFlags, programs.Stream), nil },
}

func compileStream(ctx context.Context, b *build) error {
	sources := map[string][]byte{"stream.c": programs.Stream}
	return b.compile(ctx, "usr/bin/stream", sources, programs.StreamFlags, "stream.c", "-lm")
}
