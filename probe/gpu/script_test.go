package gpu

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The script that builds for a machine without a compiler compiles the library as [Build] does.
func TestScriptCompilesAlike(t *testing.T) {
	text, err := os.ReadFile("../../scripts/bench-gpu.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", " ")), " ")
	for _, want := range []string{strings.Join(slices.Concat(commonFlags, libraryFlags), " ") + " -o ", strings.Join(librarySource, " ") + " -ldl"} {
		if !strings.Contains(script, want) {
			t.Errorf("the script does not say %q", want)
		}
	}
}
