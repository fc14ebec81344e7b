package image

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	kernelfile "tare/kernel/file"
	"tare/kernel/process"
)

const passwdText = "root:x:0:0:root:/root:/bin/sh\n# no account\nredis:x:999:998::/data:\nbroken:x:nine:9::\n500:x:501:502::/by-name:\nsecond:x:999:1::/second:\nhuge:x:4294967296:0::/:\nbare:x:7:7\n"
const groupText = "root:x:0:root\nredis:x:998:\naudio:x:29:games,redis,redis\ndaemon:x:1:redis\n29:x:30:\n"

// accountsRoot is an image whose /etc/passwd is what make makes at that path.
func accountsRoot(t *testing.T, make func(passwd string) error) Image {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := make(filepath.Join(root, "etc/passwd")); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/group"), []byte(groupText), 0o644); err != nil {
		t.Fatal(err)
	}
	return Image{Name: "test", Root: root}
}

func TestUser(t *testing.T) {
	img := accountsRoot(t, func(passwd string) error { return os.WriteFile(passwd, []byte(passwdText), 0o644) })
	user := func(uid, gid int, home string, more ...int) User {
		return User{process.User{UID: uid, GID: gid, Groups: append([]int{gid}, more...)}, home}
	}
	for name, want := range map[string]User{
		"":             user(0, 0, "/root"),
		"root":         user(0, 0, "/root"),
		"redis":        user(999, 998, "/data", 29, 1),
		"redis:":       user(999, 998, "/data", 29, 1),
		"999":          user(999, 998, "/data", 29, 1),
		"redis:daemon": user(999, 1, "/data"),
		"redis:29":     user(999, 29, "/data"), // a number is an id, whoever is called so
		"500":          user(500, 0, "/"),
		"1234":         user(1234, 0, "/"),
		"1234:4321":    user(1234, 4321, "/"),
		"0:0":          user(0, 0, "/root"),
		":redis":       user(0, 998, "/root"),
		"second":       user(999, 1, "/data"), // the home is found by the id, as runtimes find it
		"bare":         user(7, 7, "/"),
		"2147483647":   user(2147483647, 0, "/"),
	} {
		got, err := img.User(name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", name, err, diff)
		}
	}
	for name, want := range map[string]string{
		"12345:unknown": "/etc/group", "broken": "/etc/passwd", "huge": "/etc/passwd", "-5": "an id of 0 to 2147483647",
		"2147483648": "an id of", "redis:-1": "an id of", "a:b:c": "USER:GROUP", " root": "/etc/passwd",
	} {
		if got, err := img.User(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want an error with %q", name, got, err, want)
		}
	}
}

// Who made the image made its passwd file, too: nothing of the host is read by it, and
// nothing waits for it.
func TestUserOfAHostileImage(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(outside, []byte("host:x:1:1::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, target := range map[string]string{"absolute": outside, "climbing": "../../../../../../../../.." + outside} {
		img := accountsRoot(t, func(passwd string) error { return os.Symlink(target, passwd) })
		if got, err := img.User("host"); err == nil {
			t.Errorf("%s link: the host's user is %+v", what, got)
		}
		if got, err := img.User("12"); err != nil || got.UID != 12 {
			t.Errorf("%s link: %+v, %v", what, got, err)
		}
	}
	img := accountsRoot(t, func(passwd string) error { return exec.Command("mkfifo", passwd).Run() })
	if got, err := img.User("host"); !errors.Is(err, kernelfile.ErrNotRegular) {
		t.Errorf("a pipe: %+v, %v", got, err)
	}
	img = accountsRoot(t, func(passwd string) error { return os.Mkdir(passwd, 0o755) })
	if got, err := img.User("host"); !errors.Is(err, kernelfile.ErrNotRegular) {
		t.Errorf("a directory: %+v, %v", got, err)
	}
	img = accountsRoot(t, func(passwd string) error {
		lines := strings.Repeat(strings.Repeat("x", 1000)+"\n", longestAccounts/1000)
		return os.WriteFile(passwd, []byte(lines), 0o644)
	})
	if got, err := img.User("host"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("an endless file: %+v, %v", got, err)
	}
	img = Image{Name: "test", Root: t.TempDir()}
	if got, err := img.User("0"); err != nil || got.Home != "/" {
		t.Errorf("no passwd at all: %+v, %v", got, err)
	}
}

func TestSettable(t *testing.T) {
	kept, warning := settable([]string{"A=1", "=x", "", "B", "A=2", "C=a\nb"})
	if want := []string{"A=1", "B", "A=2", "C=a\nb"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if !strings.HasPrefix(warning, "3 entries") || !strings.Contains(warning, `"=x", "", "B"`) || strings.Contains(warning, "\n") {
		t.Errorf("warned: %s", warning)
	}
	if kept, warning := settable([]string{"A=1"}); len(kept) != 1 || warning != "" {
		t.Errorf("kept %q, warned %q", kept, warning)
	}
}

func FuzzParseAccounts(f *testing.F) {
	f.Add(passwdText)
	f.Add(groupText)
	f.Fuzz(func(t *testing.T, s string) {
		for _, fields := range []int{3, 4} {
			all, err := parseAccounts(strings.NewReader(s), fields)
			if err == nil && slices.ContainsFunc(all, func(a account) bool { return a.id < 0 || a.group < 0 || a.name == "" }) {
				t.Errorf("accepted %+v", all)
			}
		}
	})
}

func FuzzUser(f *testing.F) {
	f.Add("redis:daemon", passwdText, groupText)
	f.Add("0", "", "")
	f.Fuzz(func(t *testing.T, user, passwd, group string) {
		users, _ := parseAccounts(strings.NewReader(passwd), 4)
		groups, _ := parseAccounts(strings.NewReader(group), 3)
		if u, err := userAmong(user, users, groups); err == nil && (u.UID < 0 || u.GID < 0 || u.Home == "" || len(u.Groups) == 0 || u.Groups[0] != u.GID) {
			t.Errorf("%q is %+v", user, u)
		}
	})
}
