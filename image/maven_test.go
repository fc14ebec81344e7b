package image

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeMaven puts an mvn on PATH that does what the lines say, in a shell; its
// $to is the directory to copy to.
func fakeMaven(t *testing.T, lines ...string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "mvn"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// fetchAs fetches one archive by whatever mvn is on PATH.
func fetchAs(t *testing.T, s *Store, j Jar) error {
	t.Helper()
	w, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.end()
	return s.fetchJars(t.Context(), w, "test", []Jar{j})
}

var someJar = Jar{Group: "org.example", Artifact: "thing", Version: "1.2", SHA256: bytesSum([]byte("an archive"))}

const copiesJar = "mkdir -p $to/org/example/thing/1.2 && printf 'an archive' > $to/org/example/thing/1.2/thing-1.2.jar"

func TestFetchJars(t *testing.T) {
	s := openTestStore(t)
	fakeMaven(t, copiesJar, "grep -q '<groupId>org.example</groupId><artifactId>thing</artifactId><version>1.2</version>' pom.xml")
	if err := fetchAs(t, s, someJar); err != nil {
		t.Fatal(err)
	}
	// What is there is not fetched again.
	fakeMaven(t, "exit 1")
	if err := fetchAs(t, s, someJar); err != nil {
		t.Error(err)
	}
	b := build{store: s, root: t.TempDir()}
	if err := b.placeJars([]Jar{someJar}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.root, jarDirectory, "thing-1.2.jar")); err != nil || string(got) != "an archive" {
		t.Errorf("%q, %v", got, err)
	}
}

// An archive for one processor is asked for, and kept, beside that for all.
func TestFetchClassifiedJar(t *testing.T) {
	s := openTestStore(t)
	fakeMaven(t, "mkdir -p $to/org/example/thing/1.2 && printf 'an archive' > $to/org/example/thing/1.2/thing-1.2-linux.jar",
		"grep -qF '<version>1.2</version><classifier>linux</classifier><exclusions><exclusion><groupId>*</groupId>' pom.xml")
	classified := someJar
	classified.Classifier = "linux"
	if err := fetchAs(t, s, classified); err != nil {
		t.Fatal(err)
	}
	b := build{store: s, root: t.TempDir()}
	if err := b.placeJars([]Jar{classified}); err != nil || !exists(t, filepath.Join(b.root, jarDirectory, "thing-1.2-linux.jar")) {
		t.Errorf("%v, or it is not there", err)
	}
}

func TestFetchedJarsAreHeldToTheirSums(t *testing.T) {
	s := openTestStore(t)
	fakeMaven(t, copiesJar)
	other := someJar
	other.SHA256 = someSum
	var refused *Refused
	if err := fetchAs(t, s, other); !errors.As(err, &refused) || !strings.Contains(err.Error(), someJar.SHA256) {
		t.Errorf("%v, want a refusal that names the sum", err)
	}
	absent := someJar
	absent.Version = "1.3"
	if err := fetchAs(t, s, absent); err == nil || !strings.Contains(err.Error(), "did not fetch org.example:thing 1.3") {
		t.Errorf("%v", err)
	}
	kept := jarPath(s.path("debs"), someJar.SHA256)
	if err := os.WriteFile(kept, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := build{store: s, root: t.TempDir()}
	if err := b.placeJars([]Jar{someJar}); !errors.As(err, &refused) {
		t.Errorf("a damaged archive: %v", err)
	}
	if _, err := os.Stat(kept); err == nil {
		t.Error("it is kept, and the next build fails the same way")
	}
}

func TestMavenThatFails(t *testing.T) {
	s := openTestStore(t)
	fakeMaven(t, "echo '[ERROR] Could not resolve it'", "echo '[ERROR] [Help 1] somewhere'", "exit 1")
	var missing *Missing
	if err := fetchAs(t, s, someJar); !errors.As(err, &missing) || !strings.Contains(err.Error(), "Could not resolve it") || !strings.Contains(err.Error(), "settings.xml") {
		t.Errorf("%v, want what mvn says, and what to do", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := fetchAs(t, s, someJar); !errors.As(err, &missing) || !strings.Contains(err.Error(), "no mvn") {
		t.Errorf("%v, want that mvn is missing", err)
	}
}

func TestReadJars(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("an archive"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("org/example/thing/1.2/thing-1.2.jar")
	put("org/example/thing/maven-metadata-local.xml")
	if jars, err := readJars(dir); err != nil || !slices.Equal(jars, []Jar{someJar}) {
		t.Errorf("%+v, %v", jars, err)
	}
	put("org/example/thing/1.2/thing-1.2-linux-x86_64.jar")
	classified := someJar
	classified.Classifier = "linux-x86_64"
	if jars, err := readJars(dir); err != nil || !slices.Equal(jars, []Jar{classified, someJar}) {
		t.Errorf("%+v, %v", jars, err)
	}
	put("org/example/thing/1.2/other-1.2.jar")
	if _, err := readJars(dir); err == nil {
		t.Error("an archive passes that lies where another's do, and that the lock cannot name")
	}
}
