package programs_test

import (
	"os"
	"strings"
	"testing"

	"tare/programs"
)

func TestHeapFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("heap/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"JAVACFLAGS ?= " + strings.Join(programs.HeapFlags, " ") + "\n", ": " + programs.HeapJava + "\n"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
}
