package image

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"tare/programs"
)

// thriftRecipe holds S4's service on Apache Thrift, in Python and in Go, its client
// in Python, and the program that multiplies matrices beside it.
var thriftRecipe = recipe{
	name:    "thrift",
	summary: "S4's service on Apache Thrift in Python and in Go, its client, and a multiplication of matrices",
	// Thrift imports six, on which its package does not say that it depends.
	packages: []string{"python3.11-minimal", "python3-thrift", "python3-six"},
	programs: []string{ThriftPython},
	// Modules that are imported by name.
	keep:        []string{"libpython3.11-minimal", "libpython3.11-stdlib"},
	directories: []string{"data"},
	config: Config{
		Cmd:        []string{ThriftPython, "-B", ThriftPythonServer, "--port", "9090"},
		WorkingDir: "/data",
		Ports:      []int{9090},
	},
	tools:   goCompilerRecipe.name,
	add:     addThrift,
	sources: thriftSources,
}

// goCompilerRecipe is the compiler with Go and Thrift's library for it beside it.
var goCompilerRecipe = recipe{
	name:     "compiler-go",
	packages: append([]string{"golang-1.19-go", "golang-thrift-dev"}, compilerRecipe.packages...),
	programs: append([]string{goProgram, "/usr/lib/go-1.19/pkg/tool/*/compile", "/usr/lib/go-1.19/pkg/tool/*/link"}, compilerRecipe.programs...),
	keep:     append([]string{"golang-1.19-src"}, compilerRecipe.keep...),
}

// Programs of thrift's image. The service's and the client's in Python are run by
// ThriftPython.
const (
	ThriftPython       = "/usr/bin/python3.11"
	ThriftPythonServer = "/usr/lib/tare-thrift/server.py"
	ThriftPythonClient = "/usr/lib/tare-thrift/client.py"
	ThriftServer       = "/usr/bin/thrift-server"
	MatrixProgram      = "/usr/bin/matrix"
)

const (
	goProgram = "/usr/lib/go-1.19/bin/go"
	// goPackage is the path by which Go knows the server inside the tools' root.
	goPackage = "tare/programs/thrift/server"
)

var (
	goFlags = []string{"build", "-trimpath", "-ldflags=-s -w -buildid="}
	// The distribution's packages are where a GOPATH has them, and not in modules.
	goEnvironment = []string{
		"GOROOT=/usr/lib/go-1.19", "GOPATH=/tmp/go:/usr/share/gocode", "GOCACHE=/tmp/go-cache",
		"GO111MODULE=off", "GOFLAGS=", "CGO_ENABLED=0",
	}
)

// pythonCompile compiles what the programs import to bytecode that does not name the
// source's time. Else each start would compile it anew, and, without -B, each container
// write the outcome into its own layer.
const pythonCompile = `
import py_compile, sys
sys.path.insert(0, "/usr/lib/tare-thrift")
import client, server
# What is imported while they run: by the first look-up of an address, and by
# argparse.
import encodings.idna
client.parse(["--address", "localhost:1", "--count", "1"])
server.parse(["--port", "1"])
for module in sorted(set(getattr(m, "__file__", None) or "" for m in list(sys.modules.values()))):
    if module.endswith(".py"):
        py_compile.compile(module, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
`

// pythonEnvironment makes the bytecode the same every time.
var pythonEnvironment = []string{"PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"}

func thriftSources() ([]byte, error) {
	parts := [][]byte{programs.Matrix}
	for _, tree := range []fs.FS{programs.ThriftPython, programs.ThriftServer} {
		files, err := readTree(tree)
		if err != nil {
			return nil, err
		}
		for _, name := range sortedKeys(files) {
			parts = append(parts, []byte(name), files[name])
		}
	}
	flags := append(append(append([]string{pythonCompile}, goFlags...), goEnvironment...), pythonEnvironment...)
	return source(append(flags, programs.MatrixFlags...), parts...), nil
}

// readTree gives the files of a tree by their paths.
func readTree(tree fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(tree, name)
		return err
	})
	return files, err
}

func addThrift(ctx context.Context, b *build) error {
	sources := map[string][]byte{"matrix.c": programs.Matrix}
	err := b.compile(ctx, strings.TrimPrefix(MatrixProgram, "/"), sources, programs.MatrixFlags, "matrix.c")
	if err != nil {
		return err
	}
	if err := b.addThriftServer(ctx); err != nil {
		return fmt.Errorf("the service in Go: %w", err)
	}
	files, err := readTree(programs.ThriftPython)
	if err != nil {
		return err
	}
	placed := map[string][]byte{}
	for name, text := range files {
		placed[path.Join(strings.TrimPrefix(path.Dir(ThriftPythonServer), "/"), strings.TrimPrefix(name, "thrift/python/"))] = text
	}
	if err := b.writeFiles(placed); err != nil {
		return err
	}
	if _, err := b.chroot(ctx, b.root, pythonEnvironment, ThriftPython, "-c", pythonCompile); err != nil {
		return fmt.Errorf("compile the service in Python: %w", err)
	}
	return nil
}

// addThriftServer compiles the Go sources inside the tools' root.
func (b *build) addThriftServer(ctx context.Context) error {
	files, err := readTree(programs.ThriftServer)
	if err != nil {
		return err
	}
	placed := map[string][]byte{}
	for name, text := range files {
		placed[path.Join("tmp/go/src", goPackage, path.Base(name))] = text
	}
	tools := &build{root: b.tools}
	if err := tools.writeFiles(placed); err != nil {
		return err
	}
	const made = "/tmp/thrift-server"
	command := append(append([]string{goProgram}, goFlags...), "-o", made, goPackage)
	if _, err := b.chroot(ctx, b.tools, goEnvironment, command...); err != nil {
		return err
	}
	return copyProgram(filepath.Join(b.tools, made), filepath.Join(b.root, ThriftServer))
}
