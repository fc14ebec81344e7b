package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
)

func names(all []Container) []string {
	var n []string
	for _, c := range all {
		n = append(n, string(c.Engine)+" "+c.Name)
	}
	return n
}

// Where no engine answers, the groups' names are all there is.
func TestAllFromGroupsAlone(t *testing.T) {
	const pod = "0d8a1f3c_5e7b_4c29_9a10_6f2e4b8c7d15"
	for _, c := range []struct {
		name        string
		hierarchies []cgroup.Hierarchy
		groups      string
		want        []string
		processes   map[string]int
	}{
		{
			"version 1, plain driver", legacy,
			"/docker/" + hexA + " 100 101\n/docker/" + hexB + " 200\n/docker\n/system.slice/ssh.service 50\n/tare/redis-1 300 301 302\n/lxc/web 400\n/lxc/web/system.slice 401",
			[]string{"docker " + hexA[:12], "docker " + hexB[:12], "cgroup redis-1", "cgroup web"},
			map[string]int{"redis-1": 3, "web": 2},
		},
		{
			"version 2, systemd's driver", unified,
			"/system.slice/docker-" + hexA + ".scope 100\n/machine.slice/libpod-" + hexB + ".scope/container 200 201\n/machine.slice/libpod-conmon-" + hexB + ".scope 199\n/init.scope 1",
			[]string{"docker " + hexA[:12], "podman " + hexB[:12]},
			map[string]int{hexB[:12]: 2},
		},
		{
			"rootless", unified,
			"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + hexA + ".scope 100\n/user.slice/user-1000.slice/user@1000.service/app.slice/ssh.service 2",
			[]string{"docker " + hexA[:12]}, nil,
		},
		{
			"Kubernetes, and a node in a container", unified,
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + pod + ".slice/cri-containerd-" + hexA + ".scope 100\n" +
				"/docker/" + hexB + "/init.scope 200\n/docker/" + hexB + "/kubelet/kubepods/pod" + strings.ReplaceAll(pod, "_", "-") + "/" + hexA + " 201",
			[]string{"kubernetes " + hexA[:12], "docker " + hexB[:12]},
			map[string]int{hexB[:12]: 2}, // the node, with all that runs in it
		},
		{"ended, and its group left", legacy, "/docker/" + hexA, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, notes, err := newHost(t, c.hierarchies, c.groups).finder().All(t.Context())
			if err != nil || len(notes) > 0 {
				t.Fatal(notes, err)
			}
			if got := names(all); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			for _, one := range all {
				pids, err := one.Processes()
				if err != nil {
					t.Error(err)
				}
				if want, ok := c.processes[one.Name]; ok && len(pids) != want {
					t.Errorf("%s has the processes %d, want %d of them", one.Name, pids, want)
				}
				if one.Told {
					t.Errorf("nobody reported %+v", one)
				}
				if len(pids) == 0 || pids[0] != one.PID {
					t.Errorf("%s: the processes %d do not begin with the first, %d", one.Name, pids, one.PID)
				}
			}
		})
	}
}

func TestAllFromEngines(t *testing.T) {
	pod := map[string]string{labelNamespace: "shop", labelPod: "cart-7f9", labelContainer: "app"}
	h := newHost(t, legacy, "/docker/"+hexA+" 100 101\n/kubepods/burstable/pod"+uid+"/"+hexB+" 200\n/user.slice/user-0.slice/session-1.scope 300 301")
	const free = "ffff000011112222333344445555666677778888999900001111222233334444"
	const gone = "eeee000011112222333344445555666677778888999900001111222233334444"
	socket := engine(t, "Engine",
		answer{id: hexA, name: "db", image: "redis:7"},                               // says nothing more of it
		answer{id: hexB, name: "k8s_app_cart", image: "cart", pid: 200, labels: pod}, // with cri-dockerd
		answer{id: free, name: "loose", image: "redis:7", pid: 300},                  // has no group of its own
		answer{id: gone, name: "gone", image: "redis:7", pid: 999},                   // ended after it was listed
	)
	podman := engine(t, "Podman Engine", answer{id: hexA, name: "db", image: "redis:7", pid: 100})
	all, notes, err := h.finder(socket, podman).All(t.Context())
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	if got, want := names(all), []string{"docker db", "docker loose", "kubernetes shop/cart-7f9/app"}; !slices.Equal(got, want) {
		t.Fatalf("found %q, want %q", got, want)
	}
	db, loose, app := all[0], all[1], all[2]
	if !db.Told || !loose.Told || !app.Told {
		t.Errorf("an engine reported %+v, and it does not say so", all)
	}
	memory := h.layout.Hierarchies[1].Mount
	if db.PID != 100 || db.Cgroup != filepath.Join(memory, "docker", hexA) || db.Image != "redis:7" || db.ImageID != "sha256:redis:7" {
		t.Errorf("the engine said nothing of where it is, and it is %+v", db)
	}
	if loose.Cgroup != "" {
		t.Errorf("a container without a group of its own is given %s, and so a whole login session", loose.Cgroup)
	}
	if app.PID != 200 || app.Cgroup != filepath.Join(memory, "kubepods/burstable/pod"+uid, hexB) {
		t.Errorf("%+v", app)
	}

	all, _, err = h.finder(podman).All(t.Context())
	if err != nil || len(all) != 2 || all[1].Engine != Podman {
		t.Errorf("podman's is found as %+v (%v)", all, err)
	}
}

// Commands that are shown to be copied name containers: no engine has one that would be a flag there.
func TestNamesThatAreFlags(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100\n/docker/"+hexB+" 200")
	flag := map[string]string{labelNamespace: "--json=", labelPod: "etc/passwd"}
	for _, labels := range []map[string]string{
		flag,
		{labelNamespace: "shop", labelPod: "cart", labelContainer: "--all"},
		{labelNamespace: "shop", labelPod: "a b"},
		{labelNamespace: "-n", labelPod: "cart"},
	} {
		all, _, err := h.finder(engine(t, "Engine",
			answer{id: hexA, name: "web", pid: 100, labels: labels}, answer{id: hexB, name: "--all", pid: 200, labels: labels},
		)).All(t.Context())
		if want := []string{"docker " + short(hexB), "docker web"}; err != nil || !slices.Equal(names(all), want) {
			t.Errorf("%v: found %q (%v), want %q", labels, names(all), err, want)
		}
	}
	for name, want := range map[string]string{"web-1": "web-1", "": short(hexA), "--all": short(hexA), "-h": short(hexA), "a b": short(hexA)} {
		if got := nameOr(name, hexA); got != want {
			t.Errorf("%q is called %s, want %s", name, got, want)
		}
		crio, err := json.Marshal(map[string]any{"name": name, "pid": 1, "labels": flag})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := parseCRIO(crio, hexA); err != nil || c.Name != want {
			t.Errorf("CRI-O's %q is called %s (%v), want %s", name, c.Name, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	h := newHost(t, legacy, "/docker/"+hexA+" 100\n/docker/"+hexB+" 200\n/tare/redis-1 300\n/tare/a0b 400\n/system.slice/ssh.service 50 51")
	pod := map[string]string{labelNamespace: "shop", labelPod: "cart-7f9", labelContainer: "app"}
	f := h.finder(engine(t, "Engine", answer{id: hexA, name: "database", image: "redis:7", pid: 100}, answer{id: hexB, name: "x", pid: 200, labels: pod}))
	for asked, want := range map[string]string{
		"database":          "database",
		hexA:                "database",
		hexA[:3]:            "database",
		"redis-1":           "redis-1",
		"a0b":               "a0b", // a whole name goes before the beginning of an id
		hexB[:4]:            "shop/cart-7f9/app",
		"shop/cart-7f9/app": "shop/cart-7f9/app",
		"cart-7f9/app":      "shop/cart-7f9/app",
		"pid:51":            "sleep/51",
		"/docker/" + hexA:   hexA[:12],
		h.layout.Hierarchies[1].Mount + "/system.slice/ssh.service": "/system.slice/ssh.service",
		"/system.slice": "/system.slice",
	} {
		if c, err := f.Find(t.Context(), asked); err != nil || c.Name != want {
			t.Errorf("Find(%q) = %q, %v; want %q", asked, c.Name, err, want)
		}
	}

	_, err := f.Find(t.Context(), "databse")
	var unknown *Unknown
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Nearest, []string{"database"}) || len(unknown.Running) != 4 {
		t.Errorf("a mistyped name: %v", err)
	}
	for _, asked := range []string{hexA[:2], "/nowhere", "/", ""} {
		if _, err := f.Find(t.Context(), asked); !errors.As(err, &unknown) {
			t.Errorf("Find(%q): %v, want that it is unknown", asked, err)
		}
	}
	var ended *Ended
	if _, err := f.Find(t.Context(), "pid:77"); !errors.As(err, &ended) {
		t.Errorf("a process that is not there: %v", err)
	}
	for _, asked := range []string{"pid:", "pid:x", "pid:-1"} {
		if _, err := f.Find(t.Context(), asked); err == nil {
			t.Errorf("Find(%q) found something", asked)
		}
	}
}

func TestFindEach(t *testing.T) {
	h := newHost(t, legacy, "/docker/"+hexA+" 100\n/tare/redis-1 300")
	f := h.finder(engine(t, "Engine", answer{id: hexA, name: "database", pid: 100}))
	found, err := f.FindEach(t.Context(), []string{"redis-1", "database"})
	if err != nil || !slices.Equal(names(found), []string{"cgroup redis-1", "docker database"}) {
		t.Errorf("found %q, %v", names(found), err)
	}
	var twice *Twice
	for _, asked := range [][]string{{"database", hexA[:5]}, {"redis-1", "redis-1"}, {"database", "/docker/" + hexA}} {
		if _, err := f.FindEach(t.Context(), asked); !errors.As(err, &twice) {
			t.Errorf("FindEach(%q): %v, want that they are one", asked, err)
		}
	}
}

// A process is counted once, by whichever name.
func TestFindEachThatOverlap(t *testing.T) {
	h := newHost(t, legacy, "/docker/"+hexA+" 100 101\n/tare/redis-1 300\n/system.slice/ssh.service 50")
	for pid, children := range map[string]string{"50": "", "100": "101 ", "101": "", "300": ""} {
		write(t, filepath.Join(string(h.proc), pid, "task", pid, "children"), children)
	}
	f := h.finder(engine(t, "Engine", answer{id: hexA, name: "database", pid: 100}))
	for _, c := range []struct {
		names []string
		pid   int // in common
	}{
		{[]string{"database", "pid:101"}, 101},
		{[]string{"pid:101", "database"}, 101},
		{[]string{"redis-1", "pid:100", "database"}, 100},
		{[]string{"pid:100", "pid:101"}, 101},
		{[]string{"/system.slice/ssh.service", "/system.slice"}, 50},
		{[]string{"database", "pid:50", "redis-1"}, 0},
	} {
		_, err := f.FindEach(t.Context(), c.names)
		var twice *Twice
		if c.pid == 0 && err == nil {
			continue
		}
		if !errors.As(err, &twice) || twice.PID != c.pid {
			t.Errorf("FindEach(%q): %v, want that process %d is named twice", c.names, err, c.pid)
		}
	}
}

func TestFindAmbiguous(t *testing.T) {
	alike := hexA[:8] + hexB[8:]
	h := newHost(t, unified, "/docker/"+hexA+" 100\n/docker/"+alike+" 200")
	_, err := h.finder().Find(t.Context(), hexA[:5])
	var ambiguous *Ambiguous
	if !errors.As(err, &ambiguous) || len(ambiguous.Matches) != 2 || !strings.Contains(err.Error(), hexA[:12]) {
		t.Errorf("the beginning of two ids: %v", err)
	}
}

// However many containers an engine says nothing about, it costs one bound and one note.
func TestAnEngineThatHangs(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100")
	ids := []string{hexA}
	for i := range 99 {
		ids = append(ids, fmt.Sprintf("%064x", i+1))
	}
	socket, inspected := hostile(t, ids, time.Minute, 0)
	f := h.finder(socket)
	f.patience = 100 * time.Millisecond
	all, notes, err := f.All(t.Context())
	if err != nil || len(all) != 1 || all[0].PID != 100 || !all[0].Told {
		t.Errorf("found %+v (%v), want the one that has a group", all, err)
	}
	if len(notes) != 1 || notes[0].Socket != socket || !strings.Contains(notes[0].What, "described 0 of 100 containers") {
		t.Errorf("the notes are %v", notes)
	}
	if got := inspected.Load(); got > inspections {
		t.Errorf("it was asked about %d containers after the bound", got)
	}
}

func TestAnEngineThatIsTooOld(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100")
	socket, listener := listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.24") })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	_, notes, err := h.finder(socket).All(t.Context())
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0].String(), "version 1.24 of the API, and tare requires 1.40: update it to Docker Engine 19.03") {
		t.Errorf("the notes are %v, %v", notes, err)
	}
}

func TestEnginesThatCannotSay(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100")
	silent, listener := listen(t)
	defer listener.Close()
	left, deaf := listen(t)
	deaf.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := deaf.Close(); err != nil { // its listener is gone, the socket is left
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent.sock")
	podmans := filepath.Join(t.TempDir(), "podman.sock")
	if err := os.Link(left, podmans); err != nil {
		t.Fatal(err)
	}
	f := Open(Options{
		Docker: []string{silent, absent, left, podmans}, Containerd: []string{silent, absent},
		Patience: 100 * time.Millisecond, Proc: h.proc, Layout: &h.layout,
	})
	all, notes, err := f.All(t.Context())
	if err != nil || len(all) != 1 || all[0].PID != 100 {
		t.Errorf("found %+v (%v), want what the groups show", all, err)
	}
	var said []string
	for _, n := range notes {
		if n.Mend == "" || n.Socket == podmans && !strings.Contains(n.Mend, "systemctl start podman") {
			t.Errorf("%+v does not say what to do", n)
		}
		said = append(said, string(n.Engine)+" "+n.What)
	}
	want := []string{"docker has not answered for 100ms", "docker does not run", "podman does not run", "containerd has not answered for 100ms"}
	if !slices.Equal(said, want) {
		t.Errorf("the notes are %q, want %q, and none of what is absent", said, want)
	}
	_, err = f.Find(t.Context(), "database")
	if err == nil || !strings.Contains(err.Error(), "has not answered") {
		t.Errorf("what is not found while an engine is silent: %v", err)
	}
}

// While no file can be opened nothing is known of what runs, which is not that nothing does.
func TestAllWithoutOpenFiles(t *testing.T) {
	const variable = "TARE_CONTAINER_TEST_FILES"
	if os.Getenv(variable) != "" {
		f := newHost(t, legacy, "/docker/"+hexA+" 100").finder()
		err := process.SetLimits(0, 0)
		if err == nil {
			_, _, err = f.All(t.Context())
		}
		fmt.Println("All:", err)
		os.Exit(0)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestAllWithoutOpenFiles$")
	child.Env = append(os.Environ(), variable+"=1", "TMPDIR="+t.TempDir())
	out, err := child.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "All:") || !strings.Contains(string(out), syscall.EMFILE.Error()) {
		t.Errorf("%v, it says %s", err, out)
	}
}
