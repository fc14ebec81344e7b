package image

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// MPIExec starts the ranks of an MPI program, in the images that hold one.
const MPIExec = "/usr/bin/mpiexec"

// What an image needs to run programs on MPICH: the launcher, the proxy that it
// starts beside the ranks, and the library. MPICH's library cannot be linked
// statically, because those that it stands on come as shared ones only.
var (
	mpiPackages = []string{"mpich", "libmpich12"}
	mpiPrograms = []string{"/usr/bin/mpiexec.hydra", "/usr/bin/hydra_pmi_proxy", "/usr/lib/*-linux-gnu/libmpich.so.12"}
	// No maintainer script has run that would choose among MPI's implementations.
	mpiLinks = map[string]string{MPIExec[1:]: "mpiexec.hydra"}
)

// mpiCompilerRecipe is the compiler with MPICH beside it.
var mpiCompilerRecipe = recipe{
	name:     "compiler-mpi",
	packages: append([]string{"libmpich-dev"}, compilerRecipe.packages...),
	// The linker looks into the libraries that MPICH's stands on.
	programs: append([]string{"/usr/lib/*-linux-gnu/libmpich.so"}, compilerRecipe.programs...),
	keep:     append([]string{"libmpich12"}, compilerRecipe.keep...),
}

// compileMPI is compile for a program on MPICH, for recipes whose tools are
// mpiCompilerRecipe's. The distribution's mpicc does the same by a script, for which
// the tools' root has no shell.
func (b *build) compileMPI(
	ctx context.Context,
	program string,
	sources map[string][]byte,
	flags []string,
	last ...string,
) error {
	headers, err := filepath.Glob(filepath.Join(b.tools, "usr/include/*-linux-gnu/mpich"))
	if err != nil || len(headers) != 1 {
		return fmt.Errorf("the headers of MPICH lie in %q: want one directory", headers)
	}
	include := "-I" + strings.TrimPrefix(headers[0], b.tools)
	// What GCC's own library would be needed for is in the program: the root has no shared one.
	return b.compile(
		ctx,
		program,
		sources,
		slices.Concat(flags, []string{"-static-libgcc", include}),
		slices.Concat(last, []string{"-lmpich"})...)
}
