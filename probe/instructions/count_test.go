package instructions

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare/kernel/mount"
	"tare/probe"
)

// source executes a loop whose instructions are known: two a round.
const source = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], 0, 10) : 0;
	FILE *f;
	if (argc > 2 && argv[2][0] == 'f' && fork() == 0)
		_exit(0);
	if (argc > 2 && argv[2][0] == 'w') {
		if (!(f = fopen("/data/written", "w")) || fputs("x", f) < 0 || fclose(f))
			return 3;
	}
	if (argc > 2 && argv[2][0] == 'e') {
		fputs("it went wrong\n", stderr);
		return 4;
	}
	if (argc > 2 && argv[2][0] == 'h') {
		/* What holds it: each line of its status that is asked for, what it may not, who it is. */
		char line[256];
		if (!(f = fopen("/proc/self/status", "r")))
			return 5;
		while (fgets(line, sizeof line, f))
			if (!strncmp(line, "CapEff:", 7) || !strncmp(line, "CapBnd:", 7) || !strncmp(line, "NoNewPrivs:", 11)) {
				line[strcspn(line, "\n")] = 0;
				fprintf(stderr, "%s ", line);
			}
		fclose(f);
		if (fopen("/proc/sys/kernel/hostname", "r+"))
			fputs("writes ", stderr);
		if ((f = fopen("/proc/net/dev", "r")))
			while (fgets(line, sizeof line, f))
				if (strchr(line, ':') && !strstr(line, "lo:"))
					fputs("network ", stderr);
		if (!access("/proc/1/status", F_OK))
			fputs("others ", stderr);
		fprintf(stderr, "pid %d\n", (int)getpid());
		return 6;
	}
	if (n)
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
	puts(getenv("KNOWN") ? "known" : "unknown");
	return 0;
}
`

// loop compiles it, statically, for this machine.
func loop(t *testing.T) string {
	t.Helper()
	if _, err := library(); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("needs cc")
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "loop.c"), filepath.Join(dir, "loop")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-O1", "-static", "-o", program, file).CombinedOutput(); err != nil {
		t.Skipf("the loop is for x86-64, and needs a static C library: %s", out)
	}
	return program
}

func count(t *testing.T, root string, argv ...string) uint64 {
	t.Helper()
	n, err := Count(t.Context(), argv, root, []string{"KNOWN=1"})
	if missing := (*probe.Missing)(nil); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return n
}

// A million rounds more are two million instructions more, to the instruction.
func TestCountIsExact(t *testing.T) {
	program := loop(t)
	few, many := count(t, "", program, "1000000"), count(t, "", program, "2000000")
	if many-few != 2_000_000 {
		t.Errorf("a million rounds are %d instructions", many-few)
	}
	if again := count(t, "", program, "1000000"); again != few {
		t.Errorf("%d instructions, and the same once more %d", few, again)
	}
}

// rootOf makes a root file system of one program.
func rootOf(t *testing.T, program string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change into a root file system")
	}
	root := t.TempDir()
	for _, dir := range []string{"dev", "data"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := mount.Device(filepath.Join(root, "dev/null"), 0o666, 1, 3); err != nil {
		t.Skip(err)
	}
	bytes, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "loop"), bytes, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestCountInARoot(t *testing.T) {
	root := rootOf(t, loop(t))
	few, many := count(t, root, "/loop", "1000000", "w"), count(t, root, "/loop", "2000000", "w")
	if many-few != 2_000_000 {
		t.Errorf("a million rounds are %d instructions", many-few)
	}
	// It wrote, and nothing of that is left; nor is anything of ours, which was never in the
	// host's view.
	for dir, want := range map[string]int{"data": 0, "dev": 1, "": 3} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil || len(entries) != want {
			t.Errorf("/%s holds %v, %v", dir, entries, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), root) {
		t.Errorf("a mount is left (%v):\n%s", err, mounts)
	}
}

// A program in a root is root there, and can do nothing to the host.
func TestCountHolds(t *testing.T) {
	root := rootOf(t, loop(t))
	_, err := Count(t.Context(), []string{"/loop", "0", "held"}, root, nil)
	if missing := (*probe.Missing)(nil); errors.As(err, &missing) {
		t.Skip(err)
	}
	const want = "CapEff:\t0000000000000000 CapBnd:\t0000000000000000 NoNewPrivs:\t1 pid 1"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// What is covered to work on hides nothing that is worked with.
func TestDesk(t *testing.T) {
	for _, needed := range [][]string{{"/mnt/root"}, {"/mnt", "/srv/lib"}, {"/mntother", "/tmp/root"}, {"/var/lib"}} {
		dir, err := desk(needed...)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range needed {
			if strings.HasPrefix(path+"/", dir+"/") {
				t.Errorf("to work on %s hides %s", dir, path)
			}
		}
	}
	if dir, err := desk(desks...); err == nil {
		t.Errorf("%s is taken, where nothing is left", dir)
	}
}

func TestCountRefuses(t *testing.T) {
	program := loop(t)
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, "no program"},
		{[]string{program, "1", "fork"}, "several processes"},
		{[]string{program, "1", "end"}, "it went wrong"},
		{[]string{"/not/there"}, "/not/there"},
	} {
		if _, err := Count(t.Context(), c.argv, "", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.argv, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Count(ctx, []string{program, strconv.Itoa(1 << 40)}, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	_, err := libraryIn(nil)
	if missing := (*probe.Missing)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install valgrind") {
		t.Errorf("without valgrind: %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]uint64{
		"==2925== Cachegrind, a cache profiler\n==2925== \n==2925== I   refs:      40,378,947\n": 40378947,
		"--2925-- warning: L3 cache found\n==1== I refs: 7\n":                                    7,
	} {
		if n, err := parse(strings.NewReader(text)); err != nil || n != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "no line",
		"==1== I refs: 7\n==2== I refs: 8\n": "several",
		"==1== I refs: many\n":               "invalid syntax",
		"I refs: 7\n":                        "no line",
		"==1== I1  misses: 7\n":              "no line",
		"==1== I refs: 99,999,999,999,999,999,999,999,999\n": "out of range",
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("==2925== I   refs:      40,378,947\n"))
	f.Add([]byte("==1== I refs: ,\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, err := parse(strings.NewReader(string(text))); err != nil && n != 0 {
			t.Errorf("both %d and %v", n, err)
		}
	})
}
