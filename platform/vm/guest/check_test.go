package guest

import (
	"errors"
	"strings"
	"testing"

	"tare/image"
)

// A processor with AVX-512 is fit for user-mode Linux; one that has AMX is not.
func TestFitsUML(t *testing.T) {
	for _, size := range []int{576, 832, 2440, 2696} {
		if err := fitsUML(size); err != nil {
			t.Errorf("%d bytes of registers: %v", size, err)
		}
	}
	err := fitsUML(11008)
	if lack := new(image.Missing); !errors.As(err, &lack) || !strings.Contains(lack.What, "11008") || lack.Mend == "" {
		t.Errorf("with AMX: %v, want an *image.Missing that says so", err)
	}
	if err := Cloud.Check(); err != nil {
		t.Errorf("the emulated machine's kernel: %v", err)
	}
}
