package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/programs"
)

func TestHaccioFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("haccio/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CFLAGS  ?= " + strings.Join(programs.HaccioFlags, " ") + "\n",
		" -o $@ " + strings.Join(programs.HaccioSources, " ") + "\n",
	} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
}

// With the host's own MPI, where there is one; package workload tests all that the
// program does in its image.
func TestHaccioWritesAndReads(t *testing.T) {
	for _, tool := range []string{"mpicc", "mpiexec"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	program := filepath.Join(buildIn(t, "haccio", "all"), "haccio")
	out, err := exec.CommandContext(t.Context(), "mpiexec", "-n", "2", program, "--dir", t.TempDir(), "--particles", "1001").Output()
	if err != nil || strings.Count(string(out), `"bytes":76076,`) != 2 || !strings.Contains(string(out), `"verified":true`) {
		t.Errorf("%s, %v", out, err)
	}
}
