package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare/programs"
)

// The programs are built as their Makefile builds them, from the sources that it names.
func TestMPIIsTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("mpi", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for variable, flags := range map[string][]string{"MPI_CFLAGS": programs.MPIFlags, "CFLAGS": programs.GrantedFlags} {
		m := regexp.MustCompile(`(?m)^` + variable + `\s*\?=\s*(.*)$`).FindSubmatch(makefile)
		if m == nil {
			t.Fatalf("the Makefile sets no %s", variable)
		}
		if got := strings.Join(flags, " "); got != string(m[1]) {
			t.Errorf("the flags are %q, the Makefile's %q", got, m[1])
		}
	}
	for program, sources := range map[string][]string{
		"mpi-search": programs.MPISearchSources, "mpi-primes": programs.MPIPrimesSources, "granted": programs.GrantedSources,
	} {
		m := regexp.MustCompile(`(?m)^` + program + `:.*\n\t.* -o \$@ (.*)$`).FindSubmatch(makefile)
		if m == nil || string(m[1]) != strings.Join(sources, " ") {
			t.Errorf("%s is compiled from %q, by the Makefile from %q", program, sources, m)
		}
	}
}

// With the host's own MPI, where there is one, whichever it is; package workload tests
// both in their image.
func TestMPIOwnTest(t *testing.T) {
	for _, tool := range []string{"mpicc", "mpiexec"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool + "; the image's programs are tested without")
		}
	}
	runMake(t, buildIn(t, "mpi", "mpi-search"), "test-mpi")
}

func TestGrantedOwnTest(t *testing.T) {
	runMake(t, buildIn(t, "mpi", "granted"), "test")
}
