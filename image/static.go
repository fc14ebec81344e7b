package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What static's image holds.
const (
	StaticProgram = "/usr/sbin/varnishd"
	// StaticRules say how the server answers, and StaticCompiled is what its compiler
	// makes of them.
	StaticRules    = "/etc/static.vcl"
	StaticCompiled = "/usr/lib/static/vcl.so"
	// StaticCompiler is what the server has to be instructed to run in a C compiler's place. A
	// link, and no copy: the server works where it may write, and where an engine may
	// let nothing be executed.
	StaticCompiler = "ln -sf " + StaticCompiled + " %o"
	// StaticContent is the header that brings an object's content.
	StaticContent = "X-Content"

	staticPort = 8080
)

// staticRecipe holds Varnish, a web server whose files are objects in its own memory.
// It compiles its rules when it starts, by a C compiler, which would be ten times its
// size and half a second of every start: here that was done when the image was made.
var staticRecipe = recipe{
	name:        "static",
	summary:     "Varnish, a web server that keeps its objects in its own memory",
	packages:    []string{"varnish", "busybox-static"},
	programs:    []string{StaticProgram, "/bin/busybox"},
	keep:        []string{"libgcc-s1"}, // which the C library loads to end a thread
	directories: []string{"data"},
	// It runs a shell to compile, and to clear away what it compiled; cp is for the
	// image's own making.
	links: map[string]string{
		"usr/bin/sh": "busybox", "usr/bin/cp": "busybox", "usr/bin/ln": "busybox", "usr/bin/rm": "busybox",
		// The allocator reads its options from a link's name: what is freed shall not
		// count as held.
		"etc/malloc.conf": "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0",
	},
	config: Config{
		Cmd: []string{
			StaticProgram,
			"-F",
			"-n",
			"/data",
			"-j",
			"none",
			"-T",
			"none",
			"-a",
			":8080",
			"-f",
			StaticRules,
			"-p",
			"cc_command=" + StaticCompiler,
			"-s",
			"malloc",
		},
		Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkingDir: "/data",
		Ports:      []int{staticPort},
	},
	tools: compilerRecipe.name,
	add:   addStatic,
	sources: func() ([]byte, error) {
		return source(staticFlags, []byte(staticRules)), nil
	},
}

// staticRules make a server without an origin. PUT lays an object there, in place of
// one that was there, with what the header has as its content: Varnish makes an object
// of what stands for an origin's failure, and keeps it. A server that has no origin
// cannot ask one: what it does not have, it does not give.
const staticRules = `vcl 4.1;

backend none none;

sub vcl_recv {
	if (req.method == "PUT" && req.http.` + StaticContent + ` && req.restarts == 0) {
		return (purge);
	}
	if (req.method != "GET") {
		return (synth(405));
	}
	if (req.url == "/") {
		return (synth(200));
	}
	if (req.restarts == 0) {
		unset req.http.` + StaticContent + `;
	}
	return (hash);
}

sub vcl_purge {
	set req.method = "GET";
	return (restart);
}

sub vcl_miss {
	if (!req.http.` + StaticContent + `) {
		return (synth(404));
	}
}

sub vcl_backend_fetch {
	return (error(200));
}

sub vcl_backend_error {
	set beresp.ttl = 3650d;
	synthetic(bereq.http.` + StaticContent + `);
	return (deliver);
}
`

// staticFlags are the server's own, but for the libraries, which it has loaded by then.
var staticFlags = []string{"-std=gnu11", "-O2", "-fpic", "-shared", "-nostdlib", "-Wl,-x", "-s"}

// addStatic has the server write its rules in C, compiles that, and has the server try
// what it will find when it starts.
func addStatic(ctx context.Context, b *build) error {
	if err := b.writeFiles(map[string][]byte{strings.TrimPrefix(StaticRules, "/"): []byte(staticRules)}); err != nil {
		return err
	}
	// It wants its devices, and somewhere to work.
	if err := furnish(b.recipe.name, b.root); err != nil {
		return err
	}
	const text = "/tmp/static.c"
	// It is instructed to copy the text in a compiler's place, and then misses what that
	// would have made.
	_, failed := b.chroot(ctx, b.root, nil, StaticProgram, "-C", "-f", StaticRules, "-p", "cc_command=cp %s "+text)
	written, err := os.ReadFile(filepath.Join(b.root, text))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("varnishd wrote no C"), failed)
	}
	if err != nil {
		return err
	}
	sources := map[string][]byte{"vcl.c": written}
	if err := b.compile(ctx, strings.TrimPrefix(StaticCompiled, "/"), sources, staticFlags, "vcl.c"); err != nil {
		return err
	}
	if _, err := b.chroot(ctx, b.root, nil, StaticProgram, "-C", "-f", StaticRules, "-p", "cc_command="+StaticCompiler); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(b.root, "tmp", "*"))
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
