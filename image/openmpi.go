package image

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare/programs"
)

// OpenMPIExec starts the ranks of an Open MPI program, in the image that holds it
// beside MPICH.
const OpenMPIExec = "/usr/bin/mpiexec.openmpi"

// What an image needs to run programs on Open MPI. It finds its parts by name while it
// runs; these are they that ranks on one host take: processes forked and not by a remote
// shell, messages by shared memory. Parts for other networks come in the same package,
// without their libraries, and are left alone.
var (
	openMPIPackages = []string{"libopenmpi3", "openmpi-bin", "openmpi-common"}
	openMPIPrograms = append([]string{
		"/usr/bin/orterun", "/usr/bin/orted", "/usr/lib/*-linux-gnu/libmpi.so.40",
	}, openMPIParts...)
	openMPIParts = []string{
		openMPIPart("allocator_*"), openMPIPart("bml_r2"), openMPIPart("btl_self"), openMPIPart("btl_vader"),
		openMPIPart("coll_basic"), openMPIPart("coll_libnbc"), openMPIPart("coll_self"), openMPIPart("coll_tuned"),
		openMPIPart("errmgr_*"), openMPIPart("ess_hnp"), openMPIPart("ess_pmi"), openMPIPart("grpcomm_direct"),
		openMPIPart("iof_*"), openMPIPart("odls_default"), openMPIPart("oob_tcp"), openMPIPart("plm_isolated"),
		openMPIPart("pmix_ext3x"), openMPIPart("pml_ob1"), openMPIPart("regx_*"), openMPIPart("rmaps_round_robin"),
		openMPIPart("rml_oob"), openMPIPart("routed_direct"), openMPIPart("rtc_hwloc"), openMPIPart("schizo_ompi"),
		openMPIPart("shmem_sysv"), openMPIPart("state_*"), "/usr/lib/*-linux-gnu/pmix2/lib/pmix/pmix_mca_prm_default.so",
	}
)

func openMPIPart(name string) string {
	return "/usr/lib/*-linux-gnu/openmpi/lib/openmpi3/mca_" + name + ".so"
}

// openMPICompilerRecipe is the compiler with Open MPI and MPICH beside it: a recipe has
// one root of tools, and mpiRecipe's programs are compiled with either.
var openMPICompilerRecipe = recipe{
	name:     "compiler-openmpi",
	packages: append([]string{"libopenmpi-dev"}, mpiCompilerRecipe.packages...),
	programs: append([]string{"/usr/lib/*-linux-gnu/openmpi/lib/libmpi.so"}, mpiCompilerRecipe.programs...),
	keep:     append([]string{"libopenmpi3"}, mpiCompilerRecipe.keep...),
}

// The libraries that mpiRecipe's programs are compiled with.
const (
	LibraryOpenMPI = "openmpi"
	LibraryMPICH   = "mpich"
)

// MPISearchProgram is the search on one of the libraries, in the image mpi.
func MPISearchProgram(library string) string { return "/usr/bin/mpi-search." + library }

// MPIPrimesProgram is the counting of primes, likewise.
func MPIPrimesProgram(library string) string { return "/usr/bin/mpi-primes." + library }

// GrantedProgram runs a command with the number of CPUs that it may use.
const GrantedProgram = "/usr/bin/granted"

// mpiRecipe holds both libraries with their launchers, and each program compiled with
// either, so that what differs between them is the library alone.
var mpiRecipe = recipe{
	name:        "mpi",
	summary:     "parallel search and primes on the ranks of an MPI program (Open MPI and MPICH)",
	packages:    slices.Concat(openMPIPackages, mpiPackages),
	programs:    slices.Concat(openMPIPrograms, mpiPrograms),
	links:       mpiLinks,
	directories: []string{"data"},
	config:      Config{Cmd: []string{MPIExec, "-n", "1", MPISearchProgram(LibraryMPICH)}, WorkingDir: "/"},
	tools:       openMPICompilerRecipe.name,
	add:         addMPI,
	sources: func() ([]byte, error) {
		return sourcesOf(
			programs.MPI,
			slices.Concat(
				programs.MPIFlags,
				programs.MPISearchSources,
				programs.MPIPrimesSources,
				programs.GrantedFlags,
				programs.GrantedSources,
				[]string{MPISearchProgram(""), MPIPrimesProgram(""), GrantedProgram},
			),
		)
	},
}

func addMPI(ctx context.Context, b *build) error {
	sources, err := sourcesIn(programs.MPI)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name    func(library string) string
		sources []string
	}{{MPISearchProgram, programs.MPISearchSources}, {MPIPrimesProgram, programs.MPIPrimesSources}} {
		err := b.compileOpenMPI(ctx, p.name(LibraryOpenMPI)[1:], sources, programs.MPIFlags, p.sources...)
		if err != nil {
			return err
		}
		if err := b.compileMPI(ctx, p.name(LibraryMPICH)[1:], sources, programs.MPIFlags, p.sources...); err != nil {
			return err
		}
	}
	return b.compile(ctx, GrantedProgram[1:], sources, programs.GrantedFlags, programs.GrantedSources...)
}

// compileOpenMPI is compileMPI for a program on Open MPI, for recipes whose tools are
// openMPICompilerRecipe's.
func (b *build) compileOpenMPI(
	ctx context.Context,
	program string,
	sources map[string][]byte,
	flags []string,
	last ...string,
) error {
	home, err := filepath.Glob(filepath.Join(b.tools, "usr/lib/*-linux-gnu/openmpi"))
	if err != nil || len(home) != 1 {
		return fmt.Errorf("the headers of Open MPI lie in %q: want one directory", home)
	}
	at := strings.TrimPrefix(home[0], b.tools)
	return b.compile(ctx, program, sources, slices.Concat(flags, []string{"-static-libgcc", "-I" + at + "/include"}),
		slices.Concat(last, []string{"-L" + at + "/lib", "-lmpi"})...)
}
