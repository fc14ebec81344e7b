package image

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// mavenArchive asks the Maven repository through the host's own mvn, with the
// host's settings, mirrors and proxies, but with a local repository of its own.
// What is fetched is vouched for by the lock file's SHA-256 alone.
type mavenArchive struct {
	local string // where mvn keeps what it fetched, its own plugin among that
}

// copyJars is the goal that resolves and copies, of Maven's own plugin.
const copyJars = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

func newMavenArchive(local string) (*mavenArchive, error) {
	if _, err := exec.LookPath("mvn"); err != nil {
		return nil, &Missing{
			What: "no mvn on this host, so Java archives cannot be fetched",
			Mend: "apt-get install maven, or weigh an image of your own instead (--image, --image-archive, --rootfs)",
		}
	}
	return &mavenArchive{local: local}, nil
}

// project is as much of a pom.xml as asks for archives.
type project struct {
	XMLName      xml.Name     `xml:"http://maven.apache.org/POM/4.0.0 project"`
	Model        string       `xml:"modelVersion"`
	Group        string       `xml:"groupId"`
	Artifact     string       `xml:"artifactId"`
	Version      string       `xml:"version"`
	Packaging    string       `xml:"packaging"`
	Dependencies []dependency `xml:"dependencies>dependency"`
}

type dependency struct {
	Group      string `xml:"groupId"`
	Artifact   string `xml:"artifactId"`
	Version    string `xml:"version"`
	Classifier string `xml:"classifier,omitempty"`
	// Without is left out of what the archive needs, of which "*" is all.
	Without []exclusion `xml:"exclusions>exclusion,omitempty"`
}

type exclusion struct {
	Group    string `xml:"groupId"`
	Artifact string `xml:"artifactId"`
}

// get copies archives into an empty directory, and those that they need while
// they run, too, where closure is true. It says what is there then.
func (m *mavenArchive) get(ctx context.Context, dir string, jars []Jar, closure bool) ([]Jar, error) {
	p := project{Model: "4.0.0", Group: "tare", Artifact: "recipe", Version: "1", Packaging: "pom"}
	for _, j := range jars {
		d := dependency{Group: j.Group, Artifact: j.Artifact, Version: j.Version, Classifier: j.Classifier}
		if !closure {
			// mvn would look at all that the archives need, were it only to leave it out;
			// and what one of old needs may be in no repository any more.
			d.Without = []exclusion{{"*", "*"}}
		}
		p.Dependencies = append(p.Dependencies, d)
	}
	text, err := xml.Marshal(p)
	if err != nil {
		return nil, err
	}
	pom, to := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "jars")
	if err := os.WriteFile(pom, text, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", pom, "-Dmaven.repo.local="+m.local, copyJars,
		"-DincludeScope=runtime", "-DincludeTypes=jar", "-Dmdep.useRepositoryLayout=true", fmt.Sprintf("-DexcludeTransitive=%t", !closure),
		"-DoutputDirectory="+to)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return readJars(to)
}

// readJars finds archives laid out as repositories are: GROUP/PARTS/ARTIFACT/VERSION/FILE.
func readJars(dir string) (jars []Jar, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".jar" {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if len(parts) < 4 {
			return fmt.Errorf("%s is not laid out as a repository is", rel)
		}
		n := len(parts)
		j := Jar{Group: strings.Join(parts[:n-3], "."), Artifact: parts[n-3], Version: parts[n-2]}
		if parts[n-1] != j.file() {
			rest, ok := strings.CutPrefix(parts[n-1], j.Artifact+"-"+j.Version+"-")
			if j.Classifier = strings.TrimSuffix(rest, ".jar"); !ok {
				return fmt.Errorf("%s is no archive of its version", rel)
			}
		}
		if j.SHA256, err = fileSum(name); err != nil {
			return err
		}
		jars = append(jars, j)
		return j.valid()
	})
	return jars, err
}

// layout is where get puts an archive.
func layout(dir string, j Jar) string {
	return filepath.Join(dir, "jars", strings.ReplaceAll(j.Group, ".", "/"), j.Artifact, j.Version, j.file())
}

// fetchJars puts a recipe's Java archives into debs, each under its SHA-256. A
// repository does not let a version change, so that a lock without a mate there
// is an error and not a reason for another version.
func (s *Store) fetchJars(ctx context.Context, w *work, name string, jars []Jar) error {
	debs := s.path("debs")
	var absent []Jar
	for _, j := range jars {
		if _, err := os.Stat(jarPath(debs, j.SHA256)); err != nil {
			absent = append(absent, j)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	maven, release, err := s.maven(ctx)
	if err != nil {
		return err
	}
	defer release()
	fetched, err := w.subdir("jars")
	if err != nil {
		return err
	}
	defer s.step(fmt.Sprintf("fetching %d Java archives for %s", len(absent), name), 0, nil)()
	got, err := maven.get(ctx, fetched, absent, false)
	if err != nil {
		return unreachableMaven(err)
	}
	return keepJars(fetched, debs, absent, got)
}

// maven gives the repository; its local one serves one at a time.
func (s *Store) maven(ctx context.Context) (*mavenArchive, func(), error) {
	maven, err := newMavenArchive(s.path("debs", "maven"))
	if err != nil {
		return nil, nil, err
	}
	release, err := s.lock(ctx, "maven")
	return maven, release, err
}

// keepJars holds what was fetched to what was asked for.
func keepJars(fetched, debs string, want, got []Jar) error {
	sums := map[string]string{}
	for _, j := range got {
		sums[j.String()] = j.SHA256
	}
	for _, j := range want {
		switch sum := sums[j.String()]; sum {
		case j.SHA256:
		case "":
			return fmt.Errorf("mvn did not fetch %s", j)
		default:
			return &Refused{Archive: j.String(), Reason: "its SHA-256 is " + sum + ", which is not what was asked for"}
		}
		if err := os.Rename(layout(fetched, j), jarPath(debs, j.SHA256)); err != nil {
			return err
		}
	}
	return nil
}

func jarPath(debs, sum string) string { return filepath.Join(debs, sum+".jar") }

// jarDirectory is where archives lie in a root, each by the name that the
// repository has for it.
const jarDirectory = "usr/share/java"

// placeJars copies archives into a root, and verifies each as it is read.
func (b *build) placeJars(jars []Jar) error {
	files := map[string][]byte{}
	for _, j := range jars {
		kept := jarPath(b.store.path("debs"), j.SHA256)
		data, err := os.ReadFile(kept)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("archive %s went away: try again", j)
		}
		if err != nil {
			return err
		}
		if bytesSum(data) != j.SHA256 {
			_ = os.Remove(kept)
			return &Refused{Archive: j.String(), Reason: "the kept archive was damaged; it has been removed: try again"}
		}
		files[path.Join(jarDirectory, j.file())] = data
	}
	return b.writeFiles(files)
}

// unreachableMaven turns mvn's failure into an answer; a full disk and a
// refusal stay what they are.
func unreachableMaven(err error) error {
	var missing *Missing
	if err = unreachable(err); errors.As(err, &missing) {
		return &Missing{
			What: strings.Replace(missing.What, "the distribution's archive does not give the packages", "the Maven repository does not give the archives", 1),
			Mend: "check that mvn reaches its repository here (mirrors and proxies: ~/.m2/settings.xml), or weigh an image of your own instead (--image, --image-archive, --rootfs)",
		}
	}
	return err
}

// relockJars gives the archives that a recipe asks for, with all that they need.
func (s *Store) relockJars(ctx context.Context, w *work, r recipe) ([]Jar, error) {
	if len(r.jars) == 0 {
		return nil, nil
	}
	var direct []Jar
	for _, coordinates := range r.jars {
		parts := strings.Split(coordinates, ":")
		if len(parts) != 3 {
			return nil, fmt.Errorf("recipe %s: %q, want GROUP:ARTIFACT:VERSION", r.name, coordinates)
		}
		direct = append(direct, Jar{Group: parts[0], Artifact: parts[1], Version: parts[2]})
	}
	maven, release, err := s.maven(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	fetched, err := w.subdir("jars")
	if err != nil {
		return nil, err
	}
	s.progress("resolving Java archives for " + r.name)
	jars, err := maven.get(ctx, fetched, direct, true)
	if err != nil {
		return nil, unreachableMaven(err)
	}
	return jars, keepJars(fetched, s.path("debs"), jars, jars)
}
