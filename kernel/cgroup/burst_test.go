package cgroup

import "testing"

func TestWhichKernelsSaveBurst(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-56-cloud-amd64": true, "5.14.0": true, "5.13.9": false, "5.4.0-1-amd64": false, "4.19.0": false, "10.0": true, "": false, "next": false,
	} {
		if savesBurst(release) != want {
			t.Errorf("%q: %v, want %v", release, !want, want)
		}
	}
}
