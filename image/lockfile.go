package image

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"sort"
	"strings"
)

//go:embed recipes/*.lock
var lockFiles embed.FS

// Package is one distribution package, exactly.
type Package struct {
	Name    string
	Version string
	SHA256  string // of the .deb, hexadecimal
}

func (p Package) String() string { return p.Name + " " + p.Version }

// Jar is one Java archive of a Maven repository, exactly.
type Jar struct {
	Group, Artifact, Version string
	// Classifier distinguishes archives of one version, such as those for different
	// processors; most have none.
	Classifier string
	SHA256     string // hexadecimal
}

func (j Jar) String() string { return j.name() + " " + j.Version }

func (j Jar) name() string {
	if j.Classifier != "" {
		return j.Group + ":" + j.Artifact + ":" + j.Classifier
	}
	return j.Group + ":" + j.Artifact
}

// file is the archive's name, as the repository has it.
func (j Jar) file() string {
	if j.Classifier != "" {
		return j.Artifact + "-" + j.Version + "-" + j.Classifier + ".jar"
	}
	return j.Artifact + "-" + j.Version + ".jar"
}

// Module is one module of the npm registry, exactly.
type Module struct {
	// Path is where it lies below the directory of modules: its name, or, where another
	// module needs another version than the rest, "OTHER/node_modules/NAME".
	Path    string
	Version string
	SHA256  string // of the archive, hexadecimal
}

func (m Module) String() string { return m.Path + " " + m.Version }

// modulesBelow comes before each name in a module's path but the first.
const modulesBelow = "node_modules/"

func (m Module) name() string {
	names := strings.Split(m.Path, "/"+modulesBelow)
	return names[len(names)-1]
}

// file is the archive's name, as npm gives it.
func (m Module) file() string {
	return strings.ReplaceAll(strings.TrimPrefix(m.name(), "@"), "/", "-") + "-" + m.Version + ".tgz"
}

// Lock pins the packages of a recipe on one architecture. Its file holds a
// line a package, sorted: "NAME VERSION SHA256", and for what the archive's
// dependencies bring but the recipe's programs never reach, "without NAME".
// A Java archive has a line "jar GROUP:ARTIFACT VERSION SHA256", or
// "jar GROUP:ARTIFACT:CLASSIFIER VERSION SHA256". A module of Node.js has
// "npm PATH VERSION SHA256".
// Lines that begin with '#' are comments.
type Lock struct {
	Packages []Package
	Without  []string // names
	Jars     []Jar
	Modules  []Module
}

// Shapes by Debian policy 5.6.1 and 5.6.12, and by what Maven takes for
// identifiers; a version of its is narrower here, since it becomes a file's name. Those
// of npm are of names that new modules may have.
var (
	mavenIdentifier = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	moduleName      = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
	moduleVersion   = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][A-Za-z0-9.+-]+)?$`)
	packageName     = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	packageVersion  = regexp.MustCompile(`^([0-9]+:)?[A-Za-z0-9.+~-]+$`)
	sha256Hex       = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ParseLock reads a lock file. Its error names the line.
func ParseLock(r io.Reader) (Lock, error) {
	var l Lock
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		name := fields[0]
		switch {
		case len(fields) == 2 && name == "without":
			name = fields[1]
			if !packageName.MatchString(name) {
				return Lock{}, fmt.Errorf("line %d: %q is not a package name", n, name)
			}
			l.Without = append(l.Without, name)
		case len(fields) == 3:
			p := Package{Name: name, Version: fields[1], SHA256: fields[2]}
			if err := p.valid(); err != nil {
				return Lock{}, fmt.Errorf("line %d: %w", n, err)
			}
			l.Packages = append(l.Packages, p)
		case len(fields) == 4 && name == "jar":
			name = fields[1]
			group, rest, _ := strings.Cut(name, ":")
			artifact, classifier, classified := strings.Cut(rest, ":")
			j := Jar{Group: group, Artifact: artifact, Version: fields[2], Classifier: classifier, SHA256: fields[3]}
			if classified && classifier == "" {
				return Lock{}, fmt.Errorf("line %d: %q ends in a colon", n, name)
			}
			if err := j.valid(); err != nil {
				return Lock{}, fmt.Errorf("line %d: %w", n, err)
			}
			l.Jars = append(l.Jars, j)
		case len(fields) == 4 && name == "npm":
			m := Module{Path: fields[1], Version: fields[2], SHA256: fields[3]}
			if err := m.valid(); err != nil {
				return Lock{}, fmt.Errorf("line %d: %w", n, err)
			}
			name = "npm " + m.Path // apart from the packages' names
			l.Modules = append(l.Modules, m)
		default:
			return Lock{}, fmt.Errorf("line %d: want NAME VERSION SHA256, without NAME, jar GROUP:ARTIFACT VERSION SHA256, or npm PATH VERSION SHA256", n)
		}
		if seen[name] {
			return Lock{}, fmt.Errorf("line %d: %s stands twice", n, name)
		}
		seen[name] = true
	}
	if err := lines.Err(); err != nil {
		return Lock{}, err
	}
	l.sort()
	return l, nil
}

func (p Package) valid() error {
	switch {
	case !packageName.MatchString(p.Name):
		return fmt.Errorf("%q is not a package name", p.Name)
	case !packageVersion.MatchString(p.Version):
		return fmt.Errorf("%s: %q is not a version", p.Name, p.Version)
	case !sha256Hex.MatchString(p.SHA256):
		return fmt.Errorf("%s: %q is not a SHA-256", p.Name, p.SHA256)
	}
	return nil
}

func (j Jar) valid() error {
	parts := []string{j.Group, j.Artifact, j.Version}
	if j.Classifier != "" {
		parts = append(parts, j.Classifier)
	}
	for _, part := range parts {
		if !mavenIdentifier.MatchString(part) {
			return fmt.Errorf("%s: %q is not of the form GROUP:ARTIFACT[:CLASSIFIER] VERSION", j, part)
		}
	}
	if !sha256Hex.MatchString(j.SHA256) {
		return fmt.Errorf("%s: %q is not a SHA-256", j, j.SHA256)
	}
	return nil
}

func (m Module) valid() error {
	for _, name := range strings.Split(m.Path, "/"+modulesBelow) {
		if !moduleName.MatchString(name) {
			return fmt.Errorf("%s: %q is not the name of a module", m, name)
		}
	}
	switch {
	case !moduleVersion.MatchString(m.Version):
		return fmt.Errorf("%s: %q is not a version", m.Path, m.Version)
	case !sha256Hex.MatchString(m.SHA256):
		return fmt.Errorf("%s: %q is not a SHA-256", m, m.SHA256)
	}
	return nil
}

func (l *Lock) sort() {
	sort.Slice(l.Modules, func(i, j int) bool { return l.Modules[i].Path < l.Modules[j].Path })
	sort.Slice(l.Jars, func(i, j int) bool { return l.Jars[i].name() < l.Jars[j].name() })
	sort.Slice(l.Packages, func(i, j int) bool { return l.Packages[i].Name < l.Packages[j].Name })
	sort.Strings(l.Without)
}

// Format gives the lock file's text, below a line that says how it was made.
func (l Lock) Format(recipe, arch string) []byte {
	l.sort()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Packages of recipe %s on %s. Generated by `go run ./image/lock`; DO NOT EDIT.\n", recipe, arch)
	for _, p := range l.Packages {
		fmt.Fprintf(&b, "%s %s %s\n", p.Name, p.Version, p.SHA256)
	}
	for _, j := range l.Jars {
		fmt.Fprintf(&b, "jar %s %s\n", j, j.SHA256)
	}
	for _, m := range l.Modules {
		fmt.Fprintf(&b, "npm %s %s\n", m, m.SHA256)
	}
	for _, name := range l.Without {
		fmt.Fprintf(&b, "without %s\n", name)
	}
	return b.Bytes()
}

// names lists the packages, Java archives and modules, "name version", sorted.
func (l Lock) names() []string {
	var out []string
	for _, p := range l.Packages {
		out = append(out, p.String())
	}
	for _, j := range l.Jars {
		out = append(out, j.String())
	}
	for _, m := range l.Modules {
		out = append(out, m.String())
	}
	return out
}

func lockName(recipe, arch string) string { return recipe + "." + arch + ".lock" }

// readLock gives the lock that this program carries; ok is false where it has
// none for the architecture.
func readLock(recipe, arch string) (l Lock, text []byte, ok bool, err error) {
	text, err = lockFiles.ReadFile("recipes/" + lockName(recipe, arch))
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{}, nil, false, nil
	}
	if err != nil {
		return Lock{}, nil, false, err
	}
	if l, err = ParseLock(bytes.NewReader(text)); err != nil {
		return Lock{}, nil, false, fmt.Errorf("lock file %s: %w", lockName(recipe, arch), err)
	}
	return l, text, true, nil
}
