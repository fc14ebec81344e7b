package rootfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/image"
	"tare/kernel/process"
)

// UserOf finds who an image's user is ("redis", "999:999", "redis:daemon";
// empty is root), in the image's own passwd and group files, as engines do.
func UserOf(root, user string) (process.User, error) {
	if user == "" {
		return process.User{}, nil
	}
	passwd, err := readInside(root, "/etc/passwd", func(r io.Reader) ([]account, error) { return parseAccounts(r, 4) })
	if err != nil {
		return process.User{}, err
	}
	groups, err := readInside(root, "/etc/group", func(r io.Reader) ([]account, error) { return parseAccounts(r, 3) })
	if err != nil {
		return process.User{}, err
	}
	u, err := userAmong(user, passwd, groups)
	if err != nil {
		return u, fmt.Errorf("the image's user %q: %w", user, err)
	}
	return u, nil
}

// account is a line of passwd or group.
type account struct {
	name    string
	id      int
	group   int      // passwd only
	members []string // group only
}

func userAmong(user string, passwd, groups []account) (u process.User, err error) {
	name, group, hasGroup := strings.Cut(user, ":")
	i := slices.IndexFunc(passwd, func(a account) bool { return a.name == name })
	if i < 0 {
		id, err := strconv.Atoi(name)
		if err != nil || id < 0 {
			return u, errors.New("it is not in /etc/passwd")
		}
		u.UID = id
		i = slices.IndexFunc(passwd, func(a account) bool { return a.id == id })
	}
	if i >= 0 {
		u.UID, u.GID = passwd[i].id, passwd[i].group
	}
	if hasGroup {
		// A named group replaces the user's own, and the supplementary ones.
		j := slices.IndexFunc(groups, func(a account) bool { return a.name == group })
		if j >= 0 {
			u.GID = groups[j].id
			return u, nil
		}
		if u.GID, err = strconv.Atoi(group); err != nil || u.GID < 0 {
			return u, fmt.Errorf("its group %q is not in /etc/group", group)
		}
		return u, nil
	}
	if i >= 0 {
		for _, g := range groups {
			if slices.Contains(g.members, passwd[i].name) {
				u.Groups = append(u.Groups, g.id)
			}
		}
	}
	return u, nil
}

// parseAccounts reads passwd (name:x:id:group:...) or group (name:x:id:members).
// Lines that are neither are passed over, as the C library does.
func parseAccounts(r io.Reader, fields int) ([]account, error) {
	var all []account
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		f := strings.Split(strings.TrimSpace(scan.Text()), ":")
		if len(f) < fields || f[0] == "" || strings.HasPrefix(f[0], "#") {
			continue
		}
		id, err := strconv.Atoi(f[2])
		if err != nil || id < 0 {
			continue
		}
		a := account{name: f[0], id: id}
		if fields == 4 {
			if a.group, err = strconv.Atoi(f[3]); err != nil || a.group < 0 {
				continue
			}
		} else if len(f) > 3 && f[3] != "" {
			a.members = strings.Split(f[3], ",")
		}
		all = append(all, a)
	}
	return all, scan.Err()
}

// readInside parses a file of the image; one that is not there has no entries.
func readInside(root, inside string, parse func(io.Reader) ([]account, error)) ([]account, error) {
	at, err := image.Resolve(root, inside)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(root, at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s of the image: %w", inside, err)
	}
	return all, nil
}
