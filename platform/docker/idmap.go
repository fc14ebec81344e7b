package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/kernel/file"
	"tare/kernel/procfs"
	"tare/terminal"
)

// idRange maps ids inside a user namespace to the host's, as a line of
// /proc/PID/uid_map has it (user_namespaces(7)).
type idRange struct{ inside, outside, count int64 }

type idMap []idRange

// parseIDMap reads a uid_map or gid_map.
func parseIDMap(r io.Reader) (idMap, error) {
	var m idMap
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q: want three numbers", lines.Text())
		}
		var n [3]int64
		for i, f := range fields {
			v, err := strconv.ParseUint(f, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%q: %q is not an id", lines.Text(), f)
			}
			n[i] = int64(v)
		}
		m = append(m, idRange{n[0], n[1], n[2]})
	}
	return m, lines.Err()
}

// outside gives the host's id for one inside; ok is false where none is mapped.
func (m idMap) outside(id int) (_ int, ok bool) {
	for _, r := range m {
		if at := int64(id) - r.inside; at >= 0 && at < r.count {
			return int(r.outside + at), true
		}
	}
	return 0, false
}

// ids maps the owners of files in an image to the host's. The zero one changes none.
type ids struct{ users, groups idMap }

func (m ids) owner(uid, gid int) (int, int, error) {
	if m.users == nil {
		return uid, gid, nil
	}
	user, known := m.users.outside(uid)
	if !known {
		return 0, 0, fmt.Errorf("user %d is not mapped in the engine's user namespace; give its user more in /etc/subuid", uid)
	}
	group, known := m.groups.outside(gid)
	if !known {
		return 0, 0, fmt.Errorf("group %d is not mapped in the engine's user namespace; give its user more in /etc/subgid", gid)
	}
	return user, group, nil
}

// given says of a change of owner that is not permitted what mends it.
func (m ids) given(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if m.users != nil {
		return fmt.Errorf("%w: only root may give files to the ids that the engine's user namespace maps; run tare as root, or use storage=volume", err)
	}
	return fmt.Errorf("%w: only root may give files to others; run tare as root, or use storage=volume", err)
}

// makeWay makes the directories on the way to what is bound. Nobody but root enters the
// last, in which root writes. Where the engine is another user's, everybody may pass those
// above it, and sees nothing there.
func (m ids) makeWay(way ...string) error {
	for i, dir := range way {
		var err error
		if i < len(way)-1 && m.users != nil {
			err = file.Reserved(dir, os.Geteuid(), os.Getegid(), 0o711)
		} else {
			err = file.Private(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handOver lets the engine's user, and nobody else, into a directory that root has filled.
func (m ids) handOver(dir string) error {
	if m.users == nil {
		return nil
	}
	uid, gid, err := m.owner(0, 0)
	if err != nil {
		return err
	}
	return m.given(os.Chown(dir, uid, gid))
}

// owners says whose the files are to be that are bound into the engine's
// containers.
func (p *Platform) owners(ctx context.Context) (ids, error) {
	if p.name != NameRootless {
		return ids{}, nil
	}
	pid, err := p.daemon(ctx)
	if err != nil {
		return ids{}, err
	}
	var m ids
	for name, to := range map[string]*idMap{"uid_map": &m.users, "gid_map": &m.groups} {
		file, err := os.Open(procfs.Host.Process(pid).Path(name))
		if err != nil {
			return ids{}, fmt.Errorf("read which ids the engine's user namespace maps: %w", err)
		}
		*to, err = parseIDMap(file)
		file.Close()
		if err != nil {
			return ids{}, fmt.Errorf("%s of the engine's process %d: %w", name, pid, err)
		}
	}
	uid, gid, err := m.owner(0, 0)
	if err != nil {
		return ids{}, err
	}
	if closed := closedTo(uid, gid, filepath.Dir(p.stateDir)); closed != "" {
		return ids{}, p.unsupported("storage=bind", fmt.Sprintf("the engine's user %d may not look into %s, below which tare binds; chmod o+x %s", uid, closed, terminal.Shell(closed)))
	}
	return m, nil
}

// closedTo names the highest directory on the way to dir that the user may not
// search; empty where there is none. What is not there yet is made so that it may.
func closedTo(uid, gid int, dir string) string {
	closed := ""
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && !searches(uid, gid, info) {
			closed = at
		}
		if at == filepath.Dir(at) {
			return closed
		}
	}
}

// searches reads the permission bits as path_resolution(7) does, but for
// supplementary groups and access lists.
func searches(uid, gid int, info fs.FileInfo) bool {
	user, group, known := owner(info)
	mode := info.Mode().Perm()
	switch {
	case !known:
		return true
	case uid == user:
		return mode&0o100 != 0
	case gid == group:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}
