package census

import "testing"

func TestFileNames(t *testing.T) {
	for want, file := range map[string]FileCount{
		"/tmp/plain":            {Path: "/tmp/plain"},
		"/tmp/gone (deleted)":   {Path: "/tmp/gone", Deleted: true},
		`"/tmp/here (deleted)"`: {Path: "/tmp/here (deleted)"},
	} {
		if got := file.Name(); got != want {
			t.Errorf("%+v is shown as %s, want %s", file, got, want)
		}
	}
}
