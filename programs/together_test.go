package programs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/programs"
)

func TestTogetherIsTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("together", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "CFLAGS ?= " + strings.Join(programs.TogetherFlags, " ") + "\n"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not have %q", want)
	}
}

func TestTogetherOwnTest(t *testing.T) {
	runMake(t, buildIn(t, "together", "together"), "test")
}
