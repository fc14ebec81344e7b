package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// npmArchive asks the npm registry through the host's own npm, with the host's
// settings, mirrors and proxies, but with a cache of its own. No module's scripts run.
// What is fetched is vouched for by the lock file's SHA-256 alone.
type npmArchive struct {
	cache string
}

func newNPMArchive(cache string) (*npmArchive, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, &Missing{
			What: "no npm on this host, so modules of Node.js cannot be fetched",
			Mend: "apt-get install npm, or weigh an image of your own instead (--image, --image-archive, --rootfs)",
		}
	}
	return &npmArchive{cache: cache}, nil
}

func (n *npmArchive) run(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "npm", append(args, "--cache", n.cache, "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	_, err := output(cmd)
	return err
}

// resolve gives the modules that these need while they run, these among them, each
// "NAME@VERSION". What is there then has no SHA-256 yet.
func (n *npmArchive) resolve(ctx context.Context, dir string, direct []string) ([]Module, error) {
	needs := map[string]string{}
	for _, each := range direct {
		at := strings.LastIndexByte(each, '@')
		if at < 1 {
			return nil, fmt.Errorf("module %q, want NAME@VERSION", each)
		}
		needs[each[:at]] = each[at+1:]
	}
	text, err := json.Marshal(map[string]any{"name": "recipe", "version": "1.0.0", "private": true, "dependencies": needs})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644); err != nil {
		return nil, err
	}
	if err := n.run(ctx, dir, "install", "--package-lock-only", "--omit", "dev"); err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(filepath.Join(dir, "package-lock.json")); err != nil {
		return nil, err
	}
	return readModules(text)
}

// readModules reads what npm resolved, a package-lock.json of version 2 or 3.
func readModules(text []byte) ([]Module, error) {
	var resolved struct {
		Packages map[string]struct {
			Version string
			Name    string // where it is another than its path's
			Link    bool
		}
	}
	if err := json.Unmarshal(text, &resolved); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	var modules []Module
	for at, p := range resolved.Packages {
		if at == "" {
			continue // the project itself
		}
		below, ok := strings.CutPrefix(at, modulesBelow)
		m := Module{Path: below, Version: p.Version, SHA256: strings.Repeat("0", 64)}
		if !ok || p.Link || p.Name != "" && p.Name != m.name() {
			return nil, fmt.Errorf("package-lock.json: %q is no module of the registry by that name", at)
		}
		if err := m.valid(); err != nil {
			return nil, fmt.Errorf("package-lock.json: %w", err)
		}
		m.SHA256 = ""
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// get fetches modules into a directory, each into its [Module.file].
func (n *npmArchive) get(ctx context.Context, dir string, modules []Module) error {
	args := []string{"pack"}
	for _, m := range modules {
		if each := m.name() + "@" + m.Version; !slices.Contains(args, each) {
			args = append(args, each)
		}
	}
	return n.run(ctx, dir, args...)
}

// npm gives the registry; its cache serves one at a time.
func (s *Store) npm(ctx context.Context) (*npmArchive, func(), error) {
	npm, err := newNPMArchive(s.path("debs", "npm"))
	if err != nil {
		return nil, nil, err
	}
	release, err := s.lock(ctx, "npm")
	return npm, release, err
}

// fetchModules puts a recipe's modules into debs, each under its SHA-256. The registry
// does not let a version change, so that a lock without a mate there is an error.
func (s *Store) fetchModules(ctx context.Context, w *work, name string, modules []Module) error {
	debs := s.path("debs")
	var absent []Module
	for _, m := range modules {
		if _, err := os.Stat(modulePath(debs, m.SHA256)); err != nil {
			absent = append(absent, m)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	npm, release, err := s.npm(ctx)
	if err != nil {
		return err
	}
	defer release()
	fetched, err := w.subdir("modules")
	if err != nil {
		return err
	}
	defer s.step(fmt.Sprintf("fetching %d modules of Node.js for %s", len(absent), name), 0, nil)()
	if err := npm.get(ctx, fetched, absent); err != nil {
		return unreachableNPM(err)
	}
	return keepModules(fetched, debs, absent)
}

// keepModules holds what was fetched to what was asked for.
func keepModules(fetched, debs string, want []Module) error {
	for _, m := range want {
		kept := modulePath(debs, m.SHA256)
		if _, err := os.Stat(kept); err == nil {
			continue // one version may lie at several paths
		}
		sum, err := fileSum(filepath.Join(fetched, m.file()))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("npm did not fetch %s", m)
		}
		if err != nil {
			return err
		}
		if sum != m.SHA256 {
			return &Refused{Archive: m.String(), Reason: "its SHA-256 is " + sum + ", which is not what was asked for"}
		}
		if err := os.Rename(filepath.Join(fetched, m.file()), kept); err != nil {
			return err
		}
	}
	return nil
}

func modulePath(debs, sum string) string { return filepath.Join(debs, sum+".tgz") }

// moduleDirectory is where modules lie in a root: above all programs below /usr/lib,
// where Node.js looks for what they ask for.
const moduleDirectory = "usr/lib/node_modules"

// placeModules unpacks modules into a root, each verified as it is read.
func (b *build) placeModules(modules []Module) error {
	for _, m := range modules {
		kept := modulePath(b.store.path("debs"), m.SHA256)
		sum, err := fileSum(kept)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("module %s went away: try again", m)
		}
		if err != nil {
			return err
		}
		if sum != m.SHA256 {
			_ = os.Remove(kept)
			return &Refused{Archive: m.String(), Reason: "the kept archive was damaged; it has been removed: try again"}
		}
		f, err := os.Open(kept)
		if err != nil {
			return err
		}
		files, err := unpackModule(f)
		f.Close()
		if err != nil {
			return &Refused{Archive: m.String(), Reason: err.Error()}
		}
		placed := map[string][]byte{}
		for name, text := range files {
			placed[path.Join(moduleDirectory, m.Path, name)] = text
		}
		if err := b.writeFiles(placed); err != nil {
			return err
		}
	}
	return nil
}

// mostModule bounds what one module unpacks to; mongodb's, a large one, has 3 MB.
const mostModule = 64 << 20

// unpackModule gives a module's files, without what only people and other compilers read.
// All lie in one directory, whose name does not count.
func unpackModule(r io.Reader) (map[string][]byte, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	archive := tar.NewReader(io.LimitReader(unpacked, mostModule))
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		_, name, below := strings.Cut(h.Name, "/")
		if h.Typeflag != tar.TypeReg || !below || !filepath.IsLocal(name) || name != path.Clean(name) {
			return nil, fmt.Errorf("%q is no file of the module's", h.Name)
		}
		if unneededOfModule(name) {
			continue
		}
		if files[name], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

func unneededOfModule(name string) bool {
	switch path.Ext(name) {
	case ".md", ".markdown", ".ts", ".mts", ".cts", ".map":
		return true
	}
	return false
}

// unreachableNPM turns npm's failure into an answer; a full disk and a refusal stay
// what they are.
func unreachableNPM(err error) error {
	var missing *Missing
	if err = unreachable(err); errors.As(err, &missing) {
		return &Missing{
			What: strings.Replace(missing.What, "the distribution's archive does not give the packages", "the npm registry does not give the modules", 1),
			Mend: "check that npm reaches its registry here (mirrors and proxies: ~/.npmrc), or weigh an image of your own instead (--image, --image-archive, --rootfs)",
		}
	}
	return err
}

// relockModules gives the modules that a recipe asks for, with all that they need.
func (s *Store) relockModules(ctx context.Context, w *work, r recipe) ([]Module, error) {
	if len(r.modules) == 0 {
		return nil, nil
	}
	npm, release, err := s.npm(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	fetched, err := w.subdir("modules")
	if err != nil {
		return nil, err
	}
	s.progress("resolving modules of Node.js for " + r.name)
	modules, err := npm.resolve(ctx, fetched, r.modules)
	if err != nil {
		return nil, unreachableNPM(err)
	}
	if err := npm.get(ctx, fetched, modules); err != nil {
		return nil, unreachableNPM(err)
	}
	for i, m := range modules {
		if modules[i].SHA256, err = fileSum(filepath.Join(fetched, m.file())); err != nil {
			return nil, err
		}
	}
	return modules, keepModules(fetched, s.path("debs"), modules)
}
