package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// WriteInitrd writes an initial root of a busybox, a script that is its first process, and
// files by their names there.
func WriteInitrd(name, busybox, script string, files map[string]string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := archive{w: f}
	made := map[string]bool{".": true}
	var directory func(string)
	directory = func(dir string) {
		if !made[dir] {
			directory(filepath.Dir(dir))
			made[dir] = true
			a.directory(dir, 0o755)
		}
	}
	for _, dir := range []string{"bin", "dev", "proc", "sys", "root"} {
		directory(dir)
	}
	a.device("dev/console", 0o600, 5, 1)
	a.copy("bin/busybox", busybox, 0o755)
	a.file("init", 0o755, int64(len(script)), strings.NewReader(script))
	for to, from := range files {
		directory(filepath.Dir(to))
		a.copy(to, from, 0o755)
	}
	return a.end()
}
