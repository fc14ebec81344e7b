package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	kernelfile "tare/kernel/file"
	"tare/kernel/process"
)

// User is who a program of an image runs as, and the home directory of that user.
type User struct {
	process.User
	Home string
}

// User finds a user of the image: NAME or ID, and after a colon a group's NAME or ID;
// empty is root. It reads the image's own passwd and group files, and takes them as
// `docker run --user` does: a number is an id, whatever else is called so; a group that is
// named replaces the supplementary ones. The groups begin with the user's own.
func (i Image) User(user string) (User, error) {
	passwd, err := i.accounts("/etc/passwd", 4)
	if err != nil {
		return User{}, err
	}
	groups, err := i.accounts("/etc/group", 3)
	if err != nil {
		return User{}, err
	}
	u, err := userAmong(user, passwd, groups)
	if err != nil {
		return u, fmt.Errorf("user %q: %w", user, err)
	}
	return u, nil
}

// account is a line of passwd or group.
type account struct {
	name    string
	id      int
	group   int      // passwd only
	home    string   // passwd only
	members []string // group only
}

// among finds the account that a user or group means; at is -1 where a number has none.
func among(meant string, accounts []account, file string) (id, at int, err error) {
	n, notNumber := strconv.Atoi(meant)
	at = slices.IndexFunc(accounts, func(a account) bool {
		if notNumber == nil {
			return a.id == n
		}
		return a.name == meant
	})
	switch {
	case at >= 0:
		return accounts[at].id, at, nil
	case notNumber != nil:
		return 0, -1, fmt.Errorf("%q is not in %s of the image", meant, file)
	case n < 0 || n > math.MaxInt32:
		return 0, -1, fmt.Errorf("%s: want an id of 0 to %d", meant, math.MaxInt32)
	}
	return n, -1, nil
}

func userAmong(user string, passwd, groups []account) (u User, err error) {
	parts := strings.SplitN(user, ":", 3)
	if len(parts) > 2 {
		return u, errors.New("want USER or USER:GROUP")
	}
	if parts[0] == "" {
		parts[0] = "0"
	}
	var at int
	if u.UID, at, err = among(parts[0], passwd, "/etc/passwd"); err != nil {
		return u, err
	}
	if at >= 0 {
		u.GID = passwd[at].group
	}
	if len(parts) == 2 && parts[1] != "" {
		if u.GID, _, err = among(parts[1], groups, "/etc/group"); err != nil {
			return u, err
		}
		at = -1
	}
	u.Groups = []int{u.GID}
	for _, g := range groups {
		if at >= 0 && slices.Contains(g.members, passwd[at].name) && !slices.Contains(u.Groups, g.id) {
			u.Groups = append(u.Groups, g.id)
		}
	}
	// Runtimes look for the home by the id alone.
	u.Home = "/"
	home := slices.IndexFunc(passwd, func(a account) bool { return a.id == u.UID })
	if home >= 0 && passwd[home].home != "" {
		u.Home = passwd[home].home
	}
	return u, nil
}

// parseAccounts reads passwd (name:x:id:group:comment:home:...) or group
// (name:x:id:members). Lines that are neither are passed over, as the C library does.
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
		if err != nil || id < 0 || id > math.MaxInt32 {
			continue
		}
		a := account{name: f[0], id: id}
		if fields == 4 {
			if a.group, err = strconv.Atoi(f[3]); err != nil || a.group < 0 || a.group > math.MaxInt32 {
				continue
			}
			if len(f) > 5 {
				a.home = f[5]
			}
		} else if len(f) > 3 && f[3] != "" {
			a.members = strings.Split(f[3], ",")
		}
		all = append(all, a)
	}
	return all, scan.Err()
}

// longestAccounts bounds what is read of a passwd or group file, in bytes.
const longestAccounts = 16 << 20

// accounts reads such a file of the image; one that is not there has no entries. Who made
// the image has made the file, too: a link leads within the image, and a pipe is not opened.
func (i Image) accounts(inside string, fields int) ([]account, error) {
	all, err := func() ([]account, error) {
		pinned, err := kernelfile.PinIn(i.Root, inside)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer pinned.Close()
		f, err := pinned.Open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		bounded := &io.LimitedReader{R: f, N: longestAccounts}
		all, err := parseAccounts(bounded, fields)
		if err == nil && bounded.N == 0 {
			err = fmt.Errorf("larger than %d MiB", longestAccounts>>20)
		}
		return all, err
	}()
	if err != nil {
		return nil, fmt.Errorf("%s of the image: %w", inside, err)
	}
	return all, nil
}
