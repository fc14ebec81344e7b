package lab

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"tare/image"
	"tare/kernel/filesystem"
	"tare/platform"
	"tare/record"
)

// Unfit says that a condition cannot be run as it was asked for: its image lacks
// a program, or this host memory or disk.
type Unfit struct {
	Condition string
	Lacks     string
}

func (u *Unfit) Error() string { return u.Condition + ": " + u.Lacks }

// fit refuses what would fail in its first trial. Whether a program of a procedure's
// own choosing would, is the procedure's to know.
func fit(c Condition, img image.Image, host record.Host) error {
	if c.Program == nil {
		return nil
	}
	program, err := c.Program.Program(c.Params)
	if err != nil {
		return nil // the design has refused it, or it is the trial's to say
	}
	var absent []string
	for _, p := range program.Needs {
		if !img.Runs(p) {
			absent = append(absent, p)
		}
	}
	if len(absent) > 0 {
		mend := "take the image that tare builds itself (without --image, --image-archive and --rootfs), which has tare's own programs too"
		if path.Base(absent[0]) == "mpiexec" {
			mend = "an MPI program takes MPICH (apt-get install mpich) and itself inside; or " + mend
		}
		return &Unfit{c.Workload, fmt.Sprintf("image %s has no %s, which %s needs: %s", img.Name, strings.Join(absent, ", no "), c.Program.Name(), mend)}
	}
	if host.Memory > 0 && program.MemoryNeed > host.Memory {
		return &Unfit{c.Workload, fmt.Sprintf("the program needs %.1f GiB of memory, and this host has %.1f: ask for less", gibibytes(program.MemoryNeed), gibibytes(host.Memory))}
	}
	return nil
}

// room refuses what the disk below a platform's data directories cannot hold. A
// platform that does not tell where they lie is believed.
func room(
	ctx context.Context,
	c Condition,
	p platform.Platform,
	at func(path string) (filesystem.FileSystem, error),
) error {
	if c.Program == nil {
		return nil
	}
	program, err := c.Program.Program(c.Params)
	storing, tells := p.(platform.Storing)
	if err != nil || program.DiskNeed == 0 || !tells {
		return nil
	}
	storage := cmp.Or(c.Setting.Storage, platform.StorageLayer)
	dir, err := storing.StoredAt(ctx, storage)
	if err != nil || dir == "" {
		return nil // not known, or memory: the program finds out itself
	}
	on, err := at(dir)
	if err != nil || on.Memory || on.Free >= program.DiskNeed {
		return nil
	}
	return &Unfit{c.Workload, fmt.Sprintf("the program writes %.1f GiB, and the disk of %s (%s on %s) has %.1f free: ask for less, or make room there",
		gibibytes(program.DiskNeed), dir, storage, c.Platform, gibibytes(on.Free))}
}

func gibibytes(n int64) float64 { return float64(n) / (1 << 30) }
