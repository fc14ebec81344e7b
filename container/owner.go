package container

import (
	"bytes"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
)

// Whoever has a socket below /run/user/UID can have anything answer there, and
// tare mostly runs as root: what such a socket answers is believed only of
// processes that are that user's own, and asked only where the user cannot have
// turned the question to another's socket.

// userSockets is where users have sockets of their own, in a directory each.
const userSockets = "/run/user"

// subordinates says which ids users may give to the processes of their
// containers: subuid(5).
const subordinates = "/etc/subuid"

// hosts are the sockets that are no user's.
func (f *Finder) hosts(sockets []string) []string {
	return slices.DeleteFunc(slices.Clone(sockets), func(s string) bool {
		_, users := f.userOf(s)
		return users
	})
}

// userOf is the user whose a socket is, by its path or by where that leads; false of the
// host's own.
func (f *Finder) userOf(socket string) (uid int, ok bool) {
	if uid, ok = f.userAt(socket); ok {
		return uid, true
	}
	real, err := filepath.EvalSymlinks(socket)
	if err != nil {
		return 0, false
	}
	return f.userAt(real)
}

// userAt is the user in whose directory a path lies.
func (f *Finder) userAt(name string) (uid int, ok bool) {
	within, ok := strings.CutPrefix(filepath.Clean(name), f.users+"/")
	if !ok {
		return 0, false
	}
	first, _, _ := strings.Cut(within, "/")
	uid, err := strconv.Atoi(first)
	return uid, err == nil
}

// astray reports whether a user's socket leads out of the user's directory.
func (f *Finder) astray(socket string, uid int) bool {
	real, err := filepath.EvalSymlinks(socket)
	if err != nil {
		return false // it is not there, which asking it shows
	}
	directory, err := filepath.EvalSymlinks(filepath.Join(f.users, strconv.Itoa(uid)))
	return err != nil || !strings.HasPrefix(real, directory+"/")
}

// ofUser leaves of what a user's socket answers what is of the user's own processes, by an id
// as engines draw them: one that was chosen could be the name of a group that holds
// others' as well. Of the others the control groups decide.
func (f *Finder) ofUser(uid int, reported []Container) []Container {
	ids := idsOf(f.subuid, uid)
	return slices.DeleteFunc(reported, func(c Container) bool {
		return c.PID == 0 || !isID(c.ID) || !ids.has(uidsOf(f.proc, c.PID))
	})
}

// delegated reports whether a group lies in one that is not root's alone, so that others may
// make groups there by any name. That its own is another's says nothing: whoever made it named
// it. A group that is not there may be anybody's.
func delegated(l cgroup.Layout, dir string) bool {
	mount := ""
	for _, h := range l.Hierarchies {
		if strings.HasPrefix(dir, h.Mount+"/") && len(h.Mount) > len(mount) {
			mount = h.Mount
		}
	}
	if mount == "" {
		return false
	}
	if below, ok := strings.CutPrefix(dir, mount+"/"); ok && ofUsersManager(below) {
		return true
	}
	for above := filepath.Dir(dir); above != mount; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil || !rootsAlone(info) {
			return true
		}
	}
	return false
}

// ofUsersManager reports whether a path leads through the group that systemd hands to a user for the
// user's own services and scopes, whoever owns it.
func ofUsersManager(name string) bool {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		user, ok := strings.CutPrefix(part, "user@")
		if uid, service := strings.CutSuffix(user, ".service"); ok && service && uid != "0" {
			return true
		}
	}
	return false
}

// rootsAlone reports whether nobody but root may make something in a directory.
func rootsAlone(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && info.Mode()&0o002 == 0 && (stat.Gid == 0 || info.Mode()&0o020 == 0)
}

// ids are ranges of user ids.
type ids []struct{ first, count uint64 }

// has reports whether all of some ids are among them; of none it is false.
func (r ids) has(all []uint64) bool {
	for _, id := range all {
		within := func(in struct{ first, count uint64 }) bool { return id >= in.first && id-in.first < in.count }
		if !slices.ContainsFunc(r, within) {
			return false
		}
	}
	return len(all) > 0
}

// idsOf are the user's own id and those that a file gives it. Ids that come from
// elsewhere (subid: in nsswitch.conf) are not known.
func idsOf(file string, uid int) ids {
	own := strconv.Itoa(uid)
	all := ids{{uint64(uid), 1}}
	b, err := os.ReadFile(file)
	if err != nil {
		return all
	}
	names := []string{own}
	if u, err := user.LookupId(own); err == nil {
		names = append(names, u.Username)
	}
	return append(all, parseSubordinates(b, names)...)
}

// parseSubordinates reads the lines NAME:FIRST:COUNT of those names. Id 0 is
// nobody's subordinate, whatever a line says.
func parseSubordinates(b []byte, names []string) (all ids) {
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) != 3 || !slices.Contains(names, f[0]) {
			continue
		}
		first, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil || first == 0 {
			continue
		}
		if count, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			all = append(all, struct{ first, count uint64 }{first, count})
		}
	}
	return all
}

// uidsOf are a process' real, effective, saved and file system user ids: the owner of
// its directory in /proc is root where it may not be dumped. None where it is gone.
func uidsOf(proc procfs.FS, pid int) []uint64 {
	b, err := os.ReadFile(proc.Process(pid).Path("status"))
	if err != nil {
		return nil
	}
	return parseUIDs(b)
}

// parseUIDs reads the ids of a /proc/PID/status; of none it is empty.
func parseUIDs(status []byte) (all []uint64) {
	for line := range bytes.Lines(status) {
		words, ok := bytes.CutPrefix(line, []byte("Uid:"))
		if !ok {
			continue
		}
		for _, word := range bytes.Fields(words) {
			id, err := strconv.ParseUint(string(word), 10, 32)
			if err != nil {
				return nil
			}
			all = append(all, id)
		}
		return all
	}
	return nil
}
