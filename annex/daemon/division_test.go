package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/annextest"
	"tare/annex/config"
	"tare/annex/control"
	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/swap"
	"tare/kernel/swap/swaptest"
)

// beSweeper removes, when its input ends, what a test has named there, as far as it is still there:
// the test itself cannot where it is killed.
func beSweeper(string) error {
	var groups, areas []string
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if path, is := strings.CutPrefix(in.Text(), "group "); is {
			groups = append(groups, path)
		} else if path, is := strings.CutPrefix(in.Text(), "swap "); is {
			areas = append(areas, path)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	all := []error{in.Err()}
	for _, path := range groups {
		g := layout.At(path)
		all = append(all, g.Kill(ctx), g.Remove(ctx))
	}
	for _, path := range areas {
		if _, err := os.Lstat(path); err != nil {
			continue // the test has removed it
		}
		all = append(all, swap.Off(ctx, path), os.Remove(path), os.Remove(filepath.Dir(path)))
	}
	return errors.Join(all...)
}

// sweeper starts one that outlives the test; it is told of what there is by a line of input.
func sweeper(t *testing.T) (tell func(line string)) {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), sweepVariable+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is sent to the test's group is not for it
	var said strings.Builder
	command.Stderr = &said
	in, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), command.Wait()); err != nil {
			t.Errorf("%v: %s", err, said.String())
		}
	})
	return func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// split is a host with both versions of control groups, the memory controller in version 1, and a
// place in both that is the test's.
type split struct {
	memory, two cgroup.Hierarchy
	top         string // the path of the place
	tell        func(string)
}

func newSplit(t *testing.T) split {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	s := split{top: fmt.Sprintf("/tare-daemon-test-%d", os.Getpid())}
	var memory, two bool
	s.memory, memory = layout.For("memory")
	s.two, two = layout.Unified()
	if !memory || !two || s.memory.Version == 2 {
		t.Skip("this host has not both versions of control groups, with the memory controller in version 1")
	}
	s.tell = sweeper(t)
	s.tell("group " + s.top)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if g := layout.At(s.top); errors.Join(g.Kill(ctx), g.Remove(ctx)) != nil {
			t.Error(errors.Join(g.Kill(ctx), g.Remove(ctx)))
		}
	})
	return s
}

// group makes a group that has one path below the top in memory, and another in version 2; the
// root's is empty.
func (s split) group(t *testing.T, memory, two string) (g cgroup.Group) {
	t.Helper()
	for _, p := range []struct {
		in   cgroup.Hierarchy
		path string
	}{{s.memory, memory}, {s.two, two}} {
		if p.path != "" {
			g.Places = append(g.Places, cgroup.Place{Hierarchy: p.in, Path: filepath.Join(s.top, p.path)})
		}
	}
	if err := g.Create(); err != nil {
		t.Skip(err)
	}
	return g
}

// sleep has a program sleep in a group, until the case ends.
func (s split) sleep(t *testing.T, memory, two string) {
	t.Helper()
	g := s.group(t, memory, two)
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := g.Add(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
}

// drawn is an id as engines draw them, that is no other's.
func drawn(letter string) string {
	return strings.Repeat(letter, 12) + fmt.Sprintf("%052x", os.Getpid())
}

// A process that is found by two hierarchies, or at two levels, is in one container: in that of the
// first rule that fits any of these.
func TestFirstRuleDecidesAcrossLevels(t *testing.T) {
	s := newSplit(t)
	db, web := drawn("d"), drawn("b")
	critical := func(cgroup string) config.Rule { return config.Rule{Class: annex.Critical, Cgroup: cgroup} }
	elastic := func(cgroup string) config.Rule { return config.Rule{Class: annex.Elastic, Cgroup: cgroup} }
	named := config.Rule{Class: annex.Critical, Name: db[:12]}
	for _, c := range []struct {
		what  string
		runs  [][2]string   // where programs sleep, in memory and in version 2
		rules []config.Rule // cgroups below the top
		want  []string      // by what is below the top
		notes int
	}{
		{
			"by a name in one version, and by a path in the other",
			[][2]string{{"m/db", "docker/" + db}, {"m/web", "m/web"}},
			[]config.Rule{named, elastic("/m/*")},
			[]string{"critical " + db[:12], "elastic m/web"}, 1,
		},
		{
			"the other way round",
			[][2]string{{"docker/" + db, "m/db"}, {"m/web", "m/web"}},
			[]config.Rule{named, elastic("/m/*")},
			[]string{"critical " + db[:12], "elastic m/web"}, 1,
		},
		{
			"by two paths, of which version 2 has the earlier rule's",
			[][2]string{{"m/db", "t/db"}},
			[]config.Rule{critical("/t/db"), elastic("/m/db"), elastic("/m/*")},
			[]string{"critical t/db"}, 1,
		},
		{
			"by one path, with other programs in version 2 and none of them in the critical one",
			[][2]string{{"docker/" + db, "t/db"}, {"docker/jobs", "docker/jobs"}},
			[]config.Rule{critical("/t/*"), elastic("/docker")},
			[]string{"critical t/db"}, 1,
		},
		{
			"a critical one below a directory of a later rule",
			[][2]string{{"m/docker/" + db, "m/docker/" + db}, {"m/web", "m/web"}},
			[]config.Rule{named, elastic("/m")},
			[]string{"critical " + db[:12]}, 1,
		},
		{
			"the others in that directory fit by themselves",
			[][2]string{{"m/a/db", "m/a/db"}, {"m/a/web", "m/a/web"}, {"m/b/web", "m/b/web"}},
			[]config.Rule{critical("/m/*/db"), elastic("/m/*")},
			[]string{"critical m/a/db", "elastic m/a/web", "elastic m/b"}, 1,
		},
		{
			"a directory of an earlier rule has what is below it",
			[][2]string{{"m/docker/" + db, "m/docker/" + db}, {"m/web", "m/web"}},
			[]config.Rule{elastic("/m"), named},
			[]string{"elastic m"}, 1,
		},
		{
			"a critical one above a group of an earlier rule keeps its other processes from later ones",
			[][2]string{{"u/batch", "u/batch"}, {"u/db", "u/db"}},
			[]config.Rule{elastic("/u/batch"), critical("/u"), elastic("/u/*")},
			[]string{"elastic u/batch", "critical u"}, 2,
		},
		{
			"a critical container above groups of earlier rules",
			[][2]string{{"docker/" + db + "/a", "docker/" + db + "/a"}, {"docker/" + db + "/b", "docker/" + db + "/b"}, {"docker/" + db + "/c", "docker/" + db + "/c"}},
			[]config.Rule{{Class: annex.Ignored, Cgroup: "/docker/*/a"}, elastic("/docker/*/b"), named, elastic("/docker*")},
			[]string{"ignored docker/" + db + "/a", "elastic docker/" + db + "/b", "critical " + db[:12]}, 2,
		},
		{
			"two critical ones within each other",
			[][2]string{{"v/db", "v/db"}, {"v/web", "v/web"}},
			[]config.Rule{critical("/v/db"), critical("/v"), elastic("/v/*")},
			[]string{"critical v/db", "critical v"}, 1,
		},
		{
			"a critical one with no process besides those of an earlier rule",
			[][2]string{{"w/batch", "w/batch"}},
			[]config.Rule{elastic("/w/batch"), critical("/w")},
			[]string{"elastic w/batch"}, 1,
		},
		{
			"a critical one with a process of an earlier rule, by the other version",
			[][2]string{{"x/batch", "t/db/1"}, {"x/db", "t/db/2"}},
			[]config.Rule{elastic("/x/batch"), critical("/t/db"), elastic("/x/*")},
			[]string{"elastic x/batch", "critical t/db"}, 2,
		},
		{
			"a critical container that lies in an earlier rule's group by one version, and not by the other",
			[][2]string{{"y/docker/" + db, "docker/" + db + "/1"}, {"y/other", "docker/" + db + "/2"}},
			[]config.Rule{elastic("/y/docker"), named, elastic("/y/*")},
			[]string{"elastic y/docker", "critical " + db[:12]}, 2,
		},
		{
			"what one rule fits is the container, and not the directory above it",
			[][2]string{{"m/docker/" + db, "m/docker/" + db}, {"m/docker/" + web, ""}},
			[]config.Rule{elastic("/m*")},
			[]string{"elastic " + web[:12], "elastic " + db[:12]}, 0,
		},
		{
			"what is to be ignored is not managed with what it lies in",
			[][2]string{{"m/keep", "m/keep"}, {"m/web", ""}},
			[]config.Rule{{Class: annex.Ignored, Cgroup: "/m/keep"}, elastic("/m"), elastic("/m/*")},
			[]string{"ignored m/keep", "elastic m/web"}, 1,
		},
		{
			"in version 2 alone",
			[][2]string{{"", "t/db"}},
			[]config.Rule{critical("/t/*")},
			[]string{"critical t/db"}, 0,
		},
		{
			"by a path of any characters, as text",
			[][2]string{{"a b/*?[x]", "a b/*?[x]"}, {"a b/yyx", ""}},
			[]config.Rule{critical(`/a b/\*\?\[x\]`), elastic("/a b/*")},
			[]string{"critical a b/*?[x]", "elastic a b/yyx"}, 0,
		},
		{
			"and by one that stands for any",
			[][2]string{{"a b/*?[x]", ""}},
			[]config.Rule{elastic("/a b/*")},
			[]string{"elastic a b/*?[x]"}, 0,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, at := range c.runs {
				s.sleep(t, at[0], at[1])
			}
			conf := config.Config{Rules: slices.Clone(c.rules)}
			for i := range conf.Rules {
				if conf.Rules[i].Cgroup != "" {
					conf.Rules[i].Cgroup = config.Literal(s.top) + conf.Rules[i].Cgroup
				}
			}
			containers, err := FindContainers(func() config.Config { return conf })
			if err != nil {
				t.Fatal(err)
			}
			all, notes, err := containers.Find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			of := map[int]string{}
			for _, one := range all {
				if !strings.Contains(one.Cgroup, s.top+"/") {
					continue // the host's
				}
				got = append(got, fmt.Sprintf("%s %s", conf.Class(one), strings.TrimPrefix(one.Name, s.top+"/")))
				pids, err := one.Processes()
				if err != nil {
					t.Fatal(err)
				}
				for _, pid := range pids {
					// What is critical is listed with what lies in it, and no other has what that has.
					if of[pid] != "" && conf.Class(one) != annex.Critical {
						t.Errorf("process %d is of %s and of %s", pid, of[pid], one.Name)
					}
					of[pid] = one.Name
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("there are %q, want %q", got, c.want)
			}
			notes = slices.DeleteFunc(notes, func(n string) bool {
				return !strings.Contains(n, " does not decide ") && !strings.Contains(n, " without ")
			})
			if len(notes) != c.notes {
				t.Errorf("it notes %q, want %d notes", notes, c.notes)
			}
			// Where another of a rule's groups begins is watched.
			if watched := containers.Watched(all); !slices.Contains(watched, s.memory.Mount) || !slices.Contains(watched, s.two.Mount) {
				t.Errorf("it watches %q", watched)
			}
		})
	}
}

// What is in a container that cannot be listed is not known, and so nothing of it is left to a
// later rule: the look fails.
func TestUnlistedContainersFail(t *testing.T) {
	top := t.TempDir()
	memory := cgroup.Hierarchy{Version: 1, Controllers: []string{"memory"}, Mount: top + "/memory", Root: "/"}
	two := cgroup.Hierarchy{Version: 2, Mount: top + "/unified", Root: "/"}
	layout := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{memory, two}}
	for _, c := range []struct {
		what, group string // of which the list of processes is a directory, and no file
		fails       bool
	}{
		{"in its own group", "/memory/box/db", true},
		{"in a group below it", "/memory/box/db/below", true},
		{"in its group in the other hierarchy", "/unified/box/db", true},
		{"in a group of another container", "/memory/box/web", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, dir := range []string{"/memory/box/db", "/unified"} {
				if err := os.MkdirAll(top+dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			unreadable := filepath.Join(top, c.group, "cgroup.procs")
			if err := os.MkdirAll(unreadable, 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(filepath.Join(top, c.group))
			d := division{rules: []config.Rule{{Class: annex.Critical, Name: "db"}}, layout: layout, trees: layout, partOf: map[int]int{}}
			added, err := d.add(container.Container{Name: "db", Cgroup: top + "/memory/box/db"}, 0)
			if added == c.fails || c.fails != errors.Is(err, syscall.EISDIR) {
				t.Errorf("it is added %t: %v", added, err)
			}
		})
	}
	// The look that comes upon it, and upon directories that cannot be listed.
	group := filepath.Join(top, "memory/batch/job")
	if err := os.MkdirAll(filepath.Join(top, "unified/batch/job/cgroup.procs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(os.Getppid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := config.Config{Rules: []config.Rule{{Class: annex.Critical, Cgroup: config.Literal(top) + "/memory/batch/*"}}}
	containers := Containers{layout: layout, config: func() config.Config { return conf }, self: os.Getpid()}
	if all, _, err := containers.Find(t.Context()); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a look finds %v: %v", all, err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{file: syscall.ENOTDIR, top + "/gone": nil} {
		if err := descend(dir, conf.Rules[0], func(string) {}, nil); !errors.Is(err, want) {
			t.Errorf("listing %s: %v, want %v", dir, err, want)
		}
	}
	containers.self = 1 << 30
	if _, _, err := containers.Find(t.Context()); err == nil {
		t.Error("a look does not fail where it is not known which groups are this program's own")
	}
}

// Nothing of a critical container leaves where a later rule fits the directory that holds its
// memory, though the container is found by version 2 and the directory by version 1.
func TestCriticalStaysInMemory(t *testing.T) {
	s := newSplit(t)
	swapFile := swaptest.File(t, "daemon", 96<<20)
	s.tell("swap " + swapFile)
	box := s.group(t, "box", "box")
	if err := box.LimitMemory(88 << 20); err != nil {
		t.Skip(err)
	}
	id := drawn("c")
	// Of 88 MiB 72 are in use, and 32 are to be free: two thirds of what the elastic ones have leave,
	// or half as much of the critical one, which sleeps as well.
	asks := map[string]func() string{id[:12]: annextest.Hold(t, s.group(t, "box/programs/db", "box/docker/"+id), 36<<20).Check}
	for _, name := range []string{"box/programs/one", "box/programs/two"} {
		asks[filepath.Join(s.top, name)] = annextest.Hold(t, s.group(t, name, name), 18<<20).Check
	}
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "annex.toml"), filepath.Join(dir, "annex.sock")
	text := managing(dir, filepath.Join(s.top, "box"), "")
	text = text[:strings.Index(text, "[[rule]]")] + fmt.Sprintf(`[[rule]]
class = "critical"
name = %q
[[rule]]
class = "elastic"
cgroup = %q
`, id[:12], s.top+"/box/programs/*")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, path, socket)
	status := p.await(t, "headroom", func(c control.Status) bool {
		return c.State == control.Managing && c.Memory.FreeBytes > c.Memory.HeadroomBytes
	})
	var names []string
	for _, c := range status.Contexts {
		names = append(names, c.Name)
		if critical := c.Name == id[:12]; critical != (c.Class == annex.Critical) || critical && c.Moved.EvictedBytes+c.ExtendedBytes != 0 {
			t.Errorf("%s is %s, and %d bytes of it left", c.Name, c.Class, cmp.Or(c.Moved.EvictedBytes, c.ExtendedBytes))
		}
	}
	slices.Sort(names)
	if want := []string{filepath.Join(s.top, "box/programs/one"), filepath.Join(s.top, "box/programs/two"), id[:12]}; !slices.Equal(names, want) {
		t.Errorf("the contexts are %q, want %q", names, want)
	}
	accounts, err := (cgroup.Group{Places: []cgroup.Place{{Hierarchy: s.memory, Path: filepath.Join(s.top, "box/programs/db")}}}).MemoryAccounts()
	if err != nil || accounts.Swapped != 0 {
		t.Errorf("%d bytes of the critical program's memory are in swap (%v)", accounts.Swapped, err)
	}
	p.end(syscall.SIGTERM)
	for name, ask := range asks {
		if answer := ask(); answer != "whole" {
			t.Errorf("%s: %s", name, answer)
		}
	}
}
