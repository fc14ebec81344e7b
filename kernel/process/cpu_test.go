package process

import "testing"

// A thread that is kept to one CPU is on that one.
func TestCPU(t *testing.T) {
	cpus, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range cpus {
		err := OnFreshThread(func() error {
			if err := SetAffinity([]int{want}); err != nil {
				return err
			}
			got, err := CPU()
			if err == nil && got != want {
				t.Errorf("kept to CPU %d, and reported to be on %d", want, got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
