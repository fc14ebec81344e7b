package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"time"
)

// aptArchive asks the distribution's archive through the host's own apt, with
// the host's sources, keyrings and proxies, but with an empty package status
// and directories of its own: nothing of the host's package state is used or
// changed, and apt's signatures vouch for what is fetched.
type aptArchive struct {
	dir  string // indexes and configuration
	arch string // the distribution's name of it: "amd64", "armhf"
}

// debianArch translates Go's names of architectures.
func debianArch(goarch string) string {
	switch goarch {
	case "386":
		return "i386"
	case "arm":
		return "armhf"
	case "ppc64le":
		return "ppc64el"
	}
	return goarch
}

// indexAge is how old indexes may be before a package that they lack, or that
// cannot be fetched any more, is looked for in new ones.
const indexAge = 10 * time.Minute

func newAptArchive(dir, arch string) (*aptArchive, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &Missing{
				What: "no " + tool + " on this host, so recipes cannot be built",
				Mend: "weigh an image or a root file system instead (--image, --image-archive, --rootfs), or use a Debian host",
			}
		}
	}
	a := &aptArchive{dir: dir, arch: arch}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, err
	}
	return a, os.WriteFile(a.config(), []byte(a.configuration()), 0o644)
}

func (a *aptArchive) config() string { return filepath.Join(a.dir, "apt.conf") }

// configuration is what differs from the host's. The host's hooks are cleared,
// since they would act on the host's package state; its preferences are left
// out, since they would make one host choose other versions than the next.
func (a *aptArchive) configuration() string {
	var b strings.Builder
	for _, hook := range []string{
		"APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success",
		"DPkg::Pre-Invoke", "DPkg::Post-Invoke", "DPkg::Pre-Install-Pkgs", "APT::Architectures",
	} {
		fmt.Fprintf(&b, "#clear %s;\n", hook)
	}
	for _, s := range [][2]string{
		{"APT::Architecture", a.arch},
		{"APT::Architectures::", a.arch},
		{"Dir::State", a.dir},
		{"Dir::State::lists", filepath.Join(a.dir, "lists")},
		{"Dir::State::status", filepath.Join(a.dir, "status")},
		{"Dir::State::extended_states", filepath.Join(a.dir, "extended_states")},
		{"Dir::Cache", filepath.Join(a.dir, "cache")},
		{"Dir::Log", filepath.Join(a.dir, "log")},
		{"Dir::Etc::preferences", "/dev/null"},
		{"Dir::Etc::preferencesparts", "/dev/null"},
		{"Acquire::Languages", "none"},
		{"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false"},
		{"Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled", "false"},
		{"Acquire::Retries", "3"},
		{"APT::Install-Recommends", "false"},
		{"APT::Install-Suggests", "false"},
		{"APT::Get::Assume-Yes", "true"},
		// The store is closed to apt's own user.
		{"APT::Sandbox::User", "root"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", s[0], s[1])
	}
	return b.String()
}

// run runs one of apt's tools in dir and gives its standard output.
func (a *aptArchive) run(ctx context.Context, dir, tool string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, tool, append([]string{"-q", "-c", a.config()}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	return output(cmd)
}

// output runs a command; its error ends in what the command said last.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// Nothing of ours outlives us. The kernel means the thread that started the
	// child, so that thread is kept from ending before it.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// apt's transports outlive it when it is killed, and hold its output open.
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w%s", filepath.Base(cmd.Path), err, complaint(cmp.Or(stderr.String(), stdout.String())))
	}
	return stdout.Bytes(), nil
}

// complaint picks the line worth reading from a tool's standard error: apt
// marks errors "E:", mvn (which prints them on standard output) "[ERROR]",
// others put it last.
func complaint(stderr string) string {
	last := ""
	for _, line := range strings.Split(stderr, "\n") {
		line = strings.TrimSpace(line)
		for _, mark := range []string{"E: ", "[ERROR] "} {
			if said, ok := strings.CutPrefix(line, mark); ok {
				return ": " + said
			}
		}
		if line != "" {
			last = line
		}
	}
	if last == "" {
		return ""
	}
	return ": " + last
}

// age is how long ago the indexes were fetched; ok is false where there are none.
func (a *aptArchive) age() (age time.Duration, ok bool) {
	info, err := os.Stat(filepath.Join(a.dir, "updated"))
	if err != nil {
		return 0, false
	}
	return time.Since(info.ModTime()), true
}

// aptRoom is what apt may need for indexes (some 10 MB packed, 60 unpacked and
// 60 as its cache) or for one recipe's packages.
const aptRoom = 192 << 20

// proveRoom fails where the disk has less left than that. apt itself does not
// fail on a full disk but waits for ever, so that it is not let run into one.
func (a *aptArchive) proveRoom() (err error) {
	f, err := os.CreateTemp(a.dir, "room-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		if rerr := os.Remove(f.Name()); err == nil {
			err = rerr
		}
	}()
	block := make([]byte, 1<<20)
	for n := 0; n < aptRoom; n += len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// update fetches the indexes.
func (a *aptArchive) update(ctx context.Context) error {
	if err := a.proveRoom(); err != nil {
		return err
	}
	if _, err := a.run(ctx, a.dir, "apt-get", "update"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, "updated"), nil, 0o644)
}

// Lines of "apt-get --simulate install": "Inst libc6 (2.36-9 Debian:12 [amd64])".
var simulated = regexp.MustCompile(`(?m)^Inst ([^ ]+) \(([^ )]+)`)

// resolve gives the packages, at their present versions, that these names need.
func (a *aptArchive) resolve(ctx context.Context, names []string) ([]Package, error) {
	out, err := a.run(ctx, a.dir, "apt-get", append([]string{"--simulate", "install"}, names...)...)
	if err != nil {
		return nil, err
	}
	var found []Package
	for _, m := range simulated.FindAllStringSubmatch(string(out), -1) {
		name, _, _ := strings.Cut(m[1], ":")
		found = append(found, Package{Name: name, Version: m[2]})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("apt-get names no package for %s", strings.Join(names, " "))
	}
	sums, err := a.sums(ctx, found)
	if err != nil {
		return nil, err
	}
	for i, p := range found {
		if found[i].SHA256 = sums[p.String()]; found[i].SHA256 == "" {
			return nil, fmt.Errorf("the archive's index has no SHA-256 for %s", p)
		}
	}
	return found, nil
}

// sums gives the SHA-256 of each version of the packages that the archive has,
// by "name version".
func (a *aptArchive) sums(ctx context.Context, packages []Package) (map[string]string, error) {
	args := []string{"show"}
	for _, p := range packages {
		args = append(args, p.Name)
	}
	out, err := a.run(ctx, a.dir, "apt-cache", args...)
	if err != nil {
		return nil, err
	}
	return packageSums(bytes.NewReader(out), a.arch)
}

// packageSums reads paragraphs of a Packages index.
func packageSums(r io.Reader, arch string) (map[string]string, error) {
	sums := map[string]string{}
	err := readStanzas(r, func(s stanza) error {
		if of := s["architecture"]; of != arch && of != "all" {
			return nil
		}
		p := Package{Name: s["package"], Version: s["version"], SHA256: strings.ToLower(s["sha256"])}
		if p.valid() == nil {
			sums[p.String()] = p.SHA256
		}
		return nil
	})
	return sums, err
}

// has reports whether the archive has every one of the pinned packages.
func (a *aptArchive) has(ctx context.Context, pinned []Package) bool {
	sums, err := a.sums(ctx, pinned)
	if err != nil {
		return false // apt-cache fails where it does not know a name
	}
	for _, p := range pinned {
		if sums[p.String()] != p.SHA256 {
			return false
		}
	}
	return true
}

// download fetches packages into debs, each under its SHA-256, and leaves
// those alone that are there.
func (a *aptArchive) download(ctx context.Context, work, debs string, packages []Package) error {
	args := []string{"download"}
	want := map[string]Package{}
	for _, p := range packages {
		if !haveDeb(debs, p) {
			args = append(args, p.Name+"="+p.Version)
			want[p.SHA256] = p
		}
	}
	if len(want) == 0 {
		return nil
	}
	sort.Strings(args[1:])
	if err := a.proveRoom(); err != nil {
		return err
	}
	// What was fetched before a failure, or the end of ctx, is kept for the next try.
	_, failed := a.run(ctx, work, "apt-get", args...)
	for _, file := range downloaded(work) {
		sum, err := fileSum(file)
		if err != nil {
			return err
		}
		if _, wanted := want[sum]; !wanted {
			if failed != nil {
				continue // a part of one
			}
			return &Refused{Archive: filepath.Base(file), Reason: "its SHA-256 is " + sum + ", which is not what was asked for"}
		}
		delete(want, sum)
		if err := os.Rename(file, debPath(debs, sum)); err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d packages are fetched, and kept for the next try: %w", len(packages)-len(want), len(packages), failed)
	}
	for _, p := range want {
		return fmt.Errorf("apt-get did not fetch %s", p)
	}
	return nil
}

// downloaded are the packages that apt-get has fetched into a directory of ours, whose name is no pattern; the last
// one may not be whole.
func downloaded(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	return files
}

func debPath(debs, sum string) string { return filepath.Join(debs, sum+".deb") }

func haveDeb(debs string, p Package) bool {
	_, err := os.Stat(debPath(debs, p.SHA256))
	return err == nil
}

func bytesSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func fileSum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// verifyDeb checks a kept package against its pin: the store's disk is not
// trusted for longer than it takes to read.
func verifyDeb(debs string, p Package) error {
	sum, err := fileSum(debPath(debs, p.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("package %s went away: try again", p)
	}
	if err != nil {
		return err
	}
	if sum != p.SHA256 {
		_ = os.Remove(debPath(debs, p.SHA256))
		return &Refused{Archive: p.String(), Reason: "the kept package was damaged; it has been removed: try again"}
	}
	return nil
}
