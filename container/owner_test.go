package container

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// of makes the processes the user's with that id, by all four ids.
func (h host) of(t *testing.T, uids string, pids ...string) {
	t.Helper()
	for _, pid := range pids {
		write(t, filepath.Join(string(h.proc), pid, "status"), "Name:\tsleep\nUid:\t"+uids+"\nGid:\t0\t0\t0\t0\n")
	}
}

// serve puts the socket of an engine where a user has one. Its name must stay short.
func serve(t *testing.T, f *Finder, uid int, socket string) string {
	t.Helper()
	f.users = filepath.Dir(socket)
	dir := filepath.Join(f.users, strconv.Itoa(uid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "docker.sock")
	if err := os.Rename(socket, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A user may have anything answer at a socket of the user's own. It is believed of the
// user's own processes, and of no other's.
func TestUsersSockets(t *testing.T) {
	const rootless = "/user.slice/user-1000.slice/user@1000.service/docker-"
	hexC, hexD := strings.Repeat("c", 64), strings.Repeat("d", 64)
	hexE, hexF, hexI := strings.Repeat("e", 64), strings.Repeat("f", 64), strings.Repeat("1", 64)
	h := newHost(t, unified, "/docker/"+hexA+" 100\n/docker/"+hexE+" 101\n/docker/"+hexF+" 102\n"+rootless+hexB+".scope 200\n"+rootless+hexC+".scope 201\n/user.slice/user-1000.slice/session 202 203\n"+rootless+hexI+".scope 204")
	h.of(t, "0\t0\t0\t0", "100", "101", "102")
	h.of(t, "1000\t1000\t1000\t1000", "200", "202", "204")
	h.of(t, "100998\t100998\t100998\t100998", "201") // within the container 999
	h.of(t, "1000\t0\t0\t0", "203")                  // sudo
	socket := engine(t, "Engine",
		answer{id: hexA, name: "root's", pid: 100},      // another's process
		answer{id: hexE, name: "hidden", pid: 202},      // another's id
		answer{id: hexB, name: "own", pid: 200},         // the user's
		answer{id: hexC, name: "within", pid: 201},      // a subordinate's
		answer{id: hexD, name: "sudo", pid: 203},        // one that has become root
		answer{id: "user.slice", name: "all", pid: 200}, // a group above
		answer{id: hexI, name: "--all", pid: 204},       // no engine has such a name
		answer{id: hexF, name: "nowhere"},               // no process: its group's would be taken
	)
	f := h.finder()
	f.subuid = filepath.Join(t.TempDir(), "subuid")
	write(t, f.subuid, "other:1:70000\n1000:100000:65536\n")
	f.docker = []string{serve(t, f, 1000, socket)}
	all, notes, err := f.All(t.Context())
	if err != nil || len(notes) != 0 {
		t.Fatalf("%v, %v", notes, err)
	}
	if got, want := names(all), []string{"docker " + hexI[:12], "docker " + hexA[:12], "docker " + hexE[:12], "docker " + hexF[:12], "docker hidden", "docker own", "docker within"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	for _, c := range all {
		if want := map[string]int{hexA[:12]: 100, hexE[:12]: 101, hexF[:12]: 102, hexI[:12]: 204, "hidden": 202, "own": 200, "within": 201}[c.Name]; c.PID != want {
			t.Errorf("%s is process %d, want %d", c.Name, c.PID, want)
		}
		if c.Name == "hidden" && c.Cgroup != "" {
			t.Errorf("what has another's id has a group: %s", c.Cgroup)
		}
	}
}

// A user's socket that is a link would have root ask for the user.
func TestUsersSocketsThatLeadAstray(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100")
	h.of(t, "1000\t1000\t1000\t1000", "100")
	socket := engine(t, "Engine", answer{id: hexA, name: "asked", pid: 100})
	f := h.finder()
	f.users = t.TempDir()
	link := filepath.Join(f.users, "1000", "docker.sock")
	if err := os.Mkdir(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	f.docker = []string{link}
	all, notes, err := f.All(t.Context())
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0].What, "link") || len(all) != 1 || all[0].Name == "asked" {
		t.Errorf("found %+v, with %v, %v", all, notes, err)
	}
}

func TestUserOf(t *testing.T) {
	f := Open(Options{Docker: []string{}, Containerd: []string{}})
	for socket, want := range map[string]int{
		"/run/user/1000/docker.sock": 1000, "/run/user/1/podman/podman.sock": 1, "/run/user/../user/7/x": 7,
		"/run/docker.sock": -1, "/var/run/docker.sock": -1, "/run/user/name/x": -1, "/run/username/1/x": -1,
	} {
		uid, ok := f.userOf(socket)
		if ok != (want >= 0) || ok && uid != want {
			t.Errorf("%s is of %d, %t", socket, uid, ok)
		}
	}
}

func FuzzSubordinates(f *testing.F) {
	f.Add([]byte("1000:100000:65536\n"), uint64(100000))
	f.Add([]byte("1000:0:65536\n1000:4294967295:4294967295\n1000::\nx\n"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, id uint64) {
		all := parseSubordinates(b, []string{"1000"})
		if all.has([]uint64{0}) || all.has(nil) {
			t.Errorf("root is a subordinate: %+v", all)
		}
		for _, r := range all {
			if r.count > 0 && (!all.has([]uint64{r.first}) || !all.has([]uint64{r.first + r.count - 1})) {
				t.Errorf("%+v is not among %+v", r, all)
			}
		}
	})
}

// A reply that does not end is given up; a connection may have many that do.
func TestRepliesAreBounded(t *testing.T) {
	socket, listener := listen(t)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := make([]byte, 1)
		for range 4 {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			if _, err := conn.Write(make([]byte, int(b[0]))); err != nil {
				return
			}
		}
	}()
	conn, err := dial(socket, 100)(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, n := range []byte{80, 80, 100, 101} {
		if err := exchange(conn, n); (err == nil) != (n <= 100) {
			t.Errorf("a reply of %d bytes: %v", n, err)
		}
	}
}

func exchange(conn net.Conn, n byte) error {
	if _, err := conn.Write([]byte{n}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, n))
	return err
}

// hostile serves what a user may have answer at a socket: as many containers of one list as
// there are ids, each of which it is asked about for as long as it can be.
func hostile(t *testing.T, ids []string, slow time.Duration, padding int) (socket string, inspected *atomic.Int64) {
	t.Helper()
	socket, listener := listen(t)
	inspected = new(atomic.Int64)
	mux := http.NewServeMux()
	say := func(pattern, text string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Api-Version", "1.44")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		})
	}
	say("/_ping", "OK")
	say("/{v}/version", `{"Version":"1","ApiVersion":"1.44","MinAPIVersion":"1.24"}`)
	items := make([]string, len(ids))
	for i, id := range ids {
		items[i] = `{"Id":"` + id + `"}`
	}
	say("/{v}/containers/json", "["+strings.Join(items, ",")+strings.Repeat(" ", padding)+"]")
	mux.HandleFunc("/{v}/containers/{id}/json", func(w http.ResponseWriter, r *http.Request) {
		inspected.Add(1)
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
		http.Error(w, `{"message":"no"}`, http.StatusInternalServerError)
	})
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return socket, inspected
}

// A user's socket is asked about what engines have alone, for as long as one answer may take,
// and is read from no more than a user's containers fill.
func TestUsersSocketsAreBounded(t *testing.T) {
	drawn := make([]string, 100)
	for i := range drawn {
		drawn[i] = fmt.Sprintf("%064x", i+1)
	}
	for name, c := range map[string]struct {
		ids     []string
		padding int
		says    string
		most    int64 // that it is asked about
	}{
		"no ids":                    {[]string{"", "user.slice", "../version", hexA[:63]}, 0, "", 0},
		"each takes its time":       {drawn, 0, "has not answered for 100ms", inspections},
		"a list that does not end":  {drawn[:1], mostUsersReply, "a reply of more than 256 KiB", 0},
		"one, which says no more":   {drawn[:1], mostUsersReply / 2, "has not answered for 100ms", 1},
		"none, and nothing is said": {nil, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, unified, "/docker/"+hexA+" 100")
			socket, inspected := hostile(t, c.ids, time.Minute, c.padding)
			f := h.finder()
			if strings.Contains(c.says, "100ms") {
				f.patience = 100 * time.Millisecond
			}
			f.docker = []string{serve(t, f, 1000, socket)}
			all, notes, err := f.All(t.Context())
			if err != nil || len(all) != 1 || all[0].PID != 100 {
				t.Errorf("found %+v, %v", all, err)
			}
			if c.says == "" && len(notes) > 0 || c.says != "" && (len(notes) != 1 || !strings.Contains(notes[0].What, c.says)) {
				t.Errorf("the notes are %q, want %q", notes, c.says)
			}
			if got := inspected.Load(); got > c.most {
				t.Errorf("it was asked about %d containers, want at most %d", got, c.most)
			}
		})
	}
}

// Where the host's engines alone are asked, no user's socket is, by whichever path it is named.
func TestHostsSocketsAlone(t *testing.T) {
	h := newHost(t, unified, "/docker/"+hexA+" 100")
	users := h.finder()
	socket, inspected := hostile(t, []string{hexB}, 0, 0)
	socket = serve(t, users, 1000, socket)
	link := filepath.Join(t.TempDir(), "docker.sock")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	if got := users.hosts([]string{socket, link, "/run/docker.sock"}); !slices.Equal(got, []string{"/run/docker.sock"}) {
		t.Errorf("the host's sockets are %q", got)
	}
	if inspected.Load() != 0 {
		t.Error("it was asked")
	}
	t.Setenv("DOCKER_HOST", "unix://"+userSockets+"/4000000000/docker.sock")
	f := Open(Options{Host: true})
	for _, s := range append(f.docker, f.containerd...) {
		if _, users := f.userOf(s); users {
			t.Errorf("%s is asked", s)
		}
	}
	if f = Open(Options{}); !slices.Contains(f.docker, userSockets+"/4000000000/docker.sock") {
		t.Errorf("whoever names a user's socket has it asked: %q", f.docker)
	}
}

// Whose name a user may have chosen is marked: what a user's engine reports, and what lies in
// a group that the user may make others in. That its own group is a user's, as root's engine
// gives it to the user of a container, is nothing.
func TestUnprivileged(t *testing.T) {
	needsRoot(t) // it gives directories to others
	const service = "/user.slice/user-1000.slice/user@1000.service"
	hexC, hexD := strings.Repeat("c", 64), strings.Repeat("d", 64)
	h := newHost(t, unified, "/docker/"+hexA+" 100\n/docker/"+hexA+"/below 101\n"+service+"/lxc.payload.booking-x 200\n"+
		service+"/app.slice/docker-"+hexB+".scope 201\n/shared/lxc/web 300\n/team/lxc/api 301\n/system.slice/lxc.payload.db 400\n"+
		"/user.slice/user-1000.slice/session 202\n/docker/"+hexD+" 500\n"+service+"/docker-"+hexD+".scope 203")
	h.of(t, "1000\t1000\t1000\t1000", "200", "201", "202", "203")
	at := func(path string) string { return filepath.Join(h.layout.Hierarchies[0].Mount, path) }
	for path, uid := range map[string]int{service: 1000, "/docker/" + hexA: 1000} {
		if err := os.Chown(at(path), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{"/shared": 0o777, "/team": 0o775} {
		if err := os.Chmod(at(path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(at("/team"), 0, 1000); err != nil {
		t.Fatal(err)
	}
	roots := engine(t, "Engine", answer{id: hexA, name: "booking", pid: 100}, answer{id: hexD, name: "twice"})
	f := h.finder()
	f.subuid = filepath.Join(t.TempDir(), "subuid")
	f.docker = []string{roots, serve(t, f, 1000, engine(t, "Engine", answer{id: hexC, name: "booking-y", pid: 202}))}
	all, notes, err := f.All(t.Context())
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	got := map[string]bool{}
	for _, c := range all {
		got[c.Name] = c.Unprivileged
		if c.Name == "twice" && c.PID != 500 {
			t.Errorf("what root's engine reported is taken for a user's group: %+v", c)
		}
	}
	want := map[string]bool{
		"booking": false, "db": false, "twice": false,
		"booking-x": true, "booking-y": true, "web": true, "api": true, hexB[:12]: true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("a user may have named %v, want %v", got, want)
	}
	for path, want := range map[string]bool{"/docker/" + hexA: false, "/docker/" + hexA + "/below": true, service: false, service + "/app.slice": true} {
		if c, err := f.Find(t.Context(), path); err != nil || c.Unprivileged != want {
			t.Errorf("%s: %+v, %v, want %t", path, c, err, want)
		}
	}
}

// FuzzParseUIDs: only a line of ids alone has any, and a command cannot pass for it.
func FuzzParseUIDs(f *testing.F) {
	f.Add([]byte("Name:\tsh\nUid:\t1000\t1000\t1000\t1000\nGid:\t1\n"))
	f.Add([]byte("Name:\tUid:\nUid: -1 x\n"))
	f.Fuzz(func(t *testing.T, status []byte) {
		for _, id := range parseUIDs(status) {
			if id > math.MaxUint32 {
				t.Errorf("%q has user %d", status, id)
			}
		}
	})
}
