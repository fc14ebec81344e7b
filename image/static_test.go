package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tryStatic has the server read its rules as it does when it starts, without a
// compiler.
func tryStatic(t *testing.T, img Image) {
	t.Helper()
	// It works in a directory that it makes.
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(img.Root, "tmp", "varnishd_C_*"))
		for _, name := range left {
			if err := os.RemoveAll(name); err != nil {
				t.Error(err)
			}
		}
	})
	if got := inside(t, img, StaticProgram, "-C", "-f", StaticRules, "-p", "cc_command="+StaticCompiler); !strings.Contains(got, StaticContent) {
		t.Errorf("the server says of its rules: %s", got)
	}
	if strings.Contains(staticRules, "return (pass)") || !strings.Contains(staticRules, "backend none none;") {
		t.Error("the rules can lead to an origin")
	}
}
