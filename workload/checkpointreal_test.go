package workload

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/image"
)

// furnished runs a program in an image's root with what every platform gives it
// beside the image, /proc, /sys and shared memory, and with a file system on /data:
// "--bind DIR" or "-t tmpfs -o size=SIZE tmpfs". All of it, and the program's
// processes, are gone with the command. A prelude is the shell's, before the program.
func furnished(t *testing.T, img image.Image, data, prelude string, program Program) *exec.Cmd {
	t.Helper()
	for _, tool := range []string{"unshare", "mount", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	const script = `set -e
mount -t proc proc "$ROOT/proc"
mount -t sysfs -o ro sysfs "$ROOT/sys"
mount -t tmpfs -o size=64m shm "$ROOT/dev/shm"
mount $DATA "$ROOT/data"
eval "$PRELUDE"
exec chroot "$ROOT" "$@"`
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"}, program.Args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "ROOT=" + img.Root, "DATA=" + data, "PRELUDE=" + prelude}, program.Env...)
	return cmd
}

// finished runs a command to its end, as a trial that has ended.
func finished(t *testing.T, p Params, cmd *exec.Cmd) *trial {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return &trial{params: p, stdout: stdout.String(), stderr: stderr.String(), exit: Exit{Code: cmd.ProcessState.ExitCode(), Elapsed: time.Since(began)}}
}

// left lists what a program has left in its data directory.
func left(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// inMemory tells whether a directory's files lie nowhere but in the page cache.
func inMemory(t *testing.T, dir string) bool {
	t.Helper()
	kind, err := exec.Command("stat", "--file-system", "--format=%T", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(kind)) == "tmpfs"
}

// Every way of writing and reading, small: what was read is what was written, as
// haccio finds itself, and fio does as much.
func TestRealCheckpoints(t *testing.T) {
	t.Parallel()
	for _, w := range []Workload{haccio{}, fioCheckpoint{}} {
		img := realImage(t, w.Source().Recipe)
		for _, params := range []string{
			"",
			"ranks=3 sync=fsync header=1000",
			"ranks=3 layout=shared cache=dropped buffer=65536",
			"ranks=2 layout=shared cache=dropped sync=fsync",
			"ranks=2 cache=bypassed",
			"ranks=3 layout=shared cache=bypassed sync=fsync buffer=65536 header=5000",
			"ranks=2 api=mpiio cache=dropped",
			"ranks=3 api=mpiio layout=shared sync=fsync",
			"ranks=3 api=mpiio-collective layout=shared buffer=65536",
			"ranks=2 api=mpiio-collective sync=fsync",
		} {
			// No multiple of a page or of a buffer.
			pairs := []string{"particles", "20011", "seed", "7"}
			for _, word := range strings.Fields(params) {
				name, value, _ := strings.Cut(word, "=")
				pairs = append(pairs, name, value)
			}
			t.Run(w.Name()+" "+params, func(t *testing.T) {
				p := resolve(t, w, pairs...)
				program, err := w.Program(p)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				tr := finished(t, p, furnished(t, img, "--bind "+dir, "", program))
				if p["cache"] == cacheBypassed && strings.Contains(tr.stderr, "Invalid argument") {
					t.Skip("the file system of " + dir + " has no way past the page cache")
				}
				// Only the kernel's account of a whole platform has it.
				tr.exit.CPU = time.Millisecond
				if err := w.Drive(t.Context(), tr); err != nil {
					t.Fatal(err)
				}
				checkRecorded(t, w, tr)
				if cached, ok := tr.records["cached"]; ok && !inMemory(t, dir) && (cached[0] == 0) != (p["cache"] != cacheKept) {
					t.Errorf("of the files' pages %v are in the page cache", cached[0])
				}
				if names := left(t, dir); len(names) > 0 {
					t.Errorf("it leaves %q", names)
				}
			})
		}
	}
}

// A byte that changes on its way is found and named, in every section of a file.
func TestRealHaccioFindsAFlippedByte(t *testing.T) {
	t.Parallel()
	img := realImage(t, "haccio")
	w := haccio{}
	p := resolve(t, w, "ranks", "2", "particles", "100", "header", "10")
	phase := func(t *testing.T, dir, name string) *trial {
		program, err := w.Program(p)
		if err != nil {
			t.Fatal(err)
		}
		program.Args = append(program.Args, "--phase", name)
		return finished(t, p, furnished(t, img, "--bind "+dir, "", program))
	}
	for at, want := range map[int64]string{
		3: "byte 3 of header, element 3", 10: "byte 0 of xx, element 0", 10 + 400 + 9: "byte 9 of yy, element 2",
		10 + 2800 + 8*50: "byte 400 of pid, element 50", 10 + 3800 - 1: "byte 199 of mask, element 99",
	} {
		dir := t.TempDir()
		if tr := phase(t, dir, "write"); tr.exit.Code != 0 {
			t.Fatal(tr.stderr)
		}
		name := filepath.Join(dir, "haccio.1")
		content, err := os.ReadFile(name)
		if err != nil || len(content) != 3810 {
			t.Fatalf("the file of rank 1 has %d bytes, %v", len(content), err)
		}
		content[at] ^= 0x10
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		tr := phase(t, dir, "read")
		if tr.exit.Code == 0 || !strings.Contains(tr.stderr, "rank 1") || !strings.Contains(tr.stderr, want) {
			t.Errorf("byte %d flipped: status %d, %q, want %q", at, tr.exit.Code, tr.stderr, want)
		}
		if names := left(t, dir); len(names) > 0 {
			t.Errorf("it leaves %q", names)
		}
	}
	// Unchanged, it is right; and cut short, it is reported.
	for _, cut := range []bool{false, true} {
		dir := t.TempDir()
		phase(t, dir, "write")
		if cut {
			if err := os.Truncate(filepath.Join(dir, "haccio.0"), 3000); err != nil {
				t.Fatal(err)
			}
		}
		if tr := phase(t, dir, "read"); (tr.exit.Code != 0) != cut || cut && !strings.Contains(tr.stderr, "ends at byte") {
			t.Errorf("cut %v: status %d, %q", cut, tr.exit.Code, tr.stderr)
		}
	}
}

// A file system that is too small is reported before anything is written; one that turns
// out to be so, by a clear line, and nothing is left.
func TestRealHaccioWithoutRoom(t *testing.T) {
	t.Parallel()
	img := realImage(t, "haccio")
	w := haccio{}
	for _, api := range []string{apiPOSIX, apiMPIIO, apiMPIIOCollective} {
		for _, layout := range []string{layoutOwn, layoutShared} {
			p := resolve(t, w, "ranks", "2", "particles", "100000", "api", api, "layout", layout)
			program, err := w.Program(p)
			if err != nil {
				t.Fatal(err)
			}
			tr := finished(t, p, furnished(t, img, "-t tmpfs -o size=7m tmpfs", "", program))
			if tr.exit.Code == 0 || !strings.Contains(tr.stderr, "the checkpoint takes 7600000 bytes, and /data has 7340032 free") || strings.Count(tr.stderr, "\n") != 1 || tr.stdout != "" {
				t.Errorf("%s, %s: status %d, %q, %q", api, layout, tr.exit.Code, tr.stdout, tr.stderr)
			}
			dir := t.TempDir()
			// The largest file that a process may write, in half kilobytes: half of what it would.
			tr = finished(t, p, furnished(t, img, "--bind "+dir, `trap "" XFSZ; ulimit -f 3700`, program))
			if tr.exit.Code == 0 || !strings.Contains(tr.stderr, "haccio: write /data/haccio") || strings.Contains(tr.stdout, `"read"`) {
				t.Errorf("%s, %s: status %d, %q, %q", api, layout, tr.exit.Code, tr.stdout, tr.stderr)
			}
			if names := left(t, dir); len(names) > 0 {
				t.Errorf("%s, %s: it leaves %q", api, layout, names)
			}
		}
	}
}
