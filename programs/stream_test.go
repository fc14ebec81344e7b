package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare/programs"
)

// The form on ranks is built as its Makefile builds it, from the sources that it names.
func TestStreamMPIIsTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("stream", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `\s*\??=\s*(.*)$`).FindSubmatch(makefile)
		if m == nil {
			t.Fatalf("the Makefile sets no %s", name)
		}
		return string(m[1])
	}
	if got, want := strings.Join(programs.StreamMPIFlags, " "), variable("MPI_CFLAGS"); got != want {
		t.Errorf("the flags are %q, the Makefile's %q", got, want)
	}
	shared := strings.Fields(variable("SHARED"))
	for own, sources := range map[string][]string{"stream.c serve.c": programs.StreamSources, "stream-mpi.c": programs.StreamMPISources} {
		if want := append(strings.Fields(own), shared...); !slices.Equal(sources, want) {
			t.Errorf("%s is compiled from %q, by the Makefile from %q", own, sources, want)
		}
	}
}

func TestStreamMPIOwnTest(t *testing.T) {
	for _, tool := range []string{"mpicc", "mpiexec"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool + " (MPICH's); the image's program is tested without")
		}
	}
	// The script's arguments are those of MPICH's launcher.
	if version, err := exec.CommandContext(t.Context(), "mpiexec", "--version").CombinedOutput(); err != nil || !strings.Contains(string(version), "HYDRA") {
		t.Skipf("mpiexec is not MPICH's: %.60s", version)
	}
	runMake(t, buildIn(t, "stream", "stream-mpi"), "test-mpi")
}
