package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/kernel/filesystem"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// needy is a program that takes what its test says.
type needy struct {
	workload.Workload
	program workload.Program
}

func (n needy) Name() string                                      { return "needy" }
func (n needy) Program(workload.Params) (workload.Program, error) { return n.program, nil }

func TestWhatCannotRunIsRefusedBeforehand(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{"usr/bin/mpiexec.hydra": 0o755, "usr/bin/data": 0o644, "etc/alternatives/x": 0o755} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	// As Debian's alternatives have it: by absolute links.
	for link, to := range map[string]string{"etc/alternatives/mpirun": "/usr/bin/mpiexec.hydra", "usr/bin/mpirun": "/etc/alternatives/mpirun", "bin": "usr/bin"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	img := image.Image{Name: "theirs", Root: root}
	host := record.Host{Memory: 1 << 30}
	for _, tt := range []struct {
		program workload.Program
		says    string
	}{
		{workload.Program{Needs: []string{"/usr/bin/mpirun", "/bin/mpiexec.hydra"}, MemoryNeed: 1 << 20}, ""},
		{workload.Program{Needs: []string{"/usr/bin/mpiexec"}}, "image theirs has no /usr/bin/mpiexec, which needy needs: an MPI program takes MPICH (apt-get install mpich)"},
		{workload.Program{Needs: []string{"/usr/bin/data"}}, "no /usr/bin/data"},
		{workload.Program{MemoryNeed: 3 << 30}, "needs 3.0 GiB of memory, and this host has 1.0"},
	} {
		c := Condition{Condition: record.Condition{Workload: "w"}, Program: needy{program: tt.program}}
		err := fit(c, img, host)
		var unfit *Unfit
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%+v: %v", tt.program, err)
		case tt.says != "" && (!errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%+v: %v, want it to say %q", tt.program, err, tt.says)
		}
	}
	if err := fit(Condition{}, img, host); err != nil {
		t.Errorf("a procedure without a program: %v", err)
	}
}

// storing is a platform whose data lie in a place of the test's.
type storing struct {
	platform.Platform
	dir string
}

func (s storing) StoredAt(context.Context, platform.Storage) (string, error) { return s.dir, nil }

func TestWhatTheDiskCannotHoldIsRefused(t *testing.T) {
	at := func(string) (filesystem.FileSystem, error) { return filesystem.FileSystem{Free: 2 << 30}, nil }
	for _, tt := range []struct {
		on   platform.Platform
		need int64
		says string
	}{
		{storing{dir: "/var/lib/data"}, 1 << 30, ""},
		{storing{dir: "/var/lib/data"}, 3 << 30, "writes 3.0 GiB, and the disk of /var/lib/data (layer on docker) has 2.0 free"},
		{storing{}, 3 << 30, ""}, // memory
		{nil, 3 << 30, ""},
	} {
		c := Condition{Condition: record.Condition{Workload: "w", Platform: "docker"}, Program: needy{program: workload.Program{DiskNeed: tt.need}}}
		err := room(context.Background(), c, tt.on, at)
		var unfit *Unfit
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%d bytes: %v", tt.need, err)
		case tt.says != "" && (!errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%d bytes: %v, want it to say %q", tt.need, err, tt.says)
		}
	}
}
