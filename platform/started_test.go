package platform

import "testing"

func TestIsRuntime(t *testing.T) {
	for exe, want := range map[string]bool{
		"/memfd:runc_cloned:/proc/self/exe (deleted)": true,
		"/usr/sbin/runc":             true,
		"/usr/sbin/runc (deleted)":   true,
		"/":                          true,
		"/bin/busybox":               false,
		"/usr/bin/truncate":          false,
		"/bin/runc-like":             false,
		"/opt/run/program (deleted)": false,
	} {
		if got := isRuntime(exe, "/usr/sbin/runc"); got != want {
			t.Errorf("%s: %v, want %v", exe, got, want)
		}
	}
}
