package image

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// httpdRecipe holds Apache's server with the modules that the distribution
// enables for it, a configuration of our own (the distribution's is put together
// by scripts, which do not run here) and files to serve.
var httpdRecipe = httpdOf(HTTPDFiles)

func httpdOf(files int) recipe {
	return recipe{
		name:        "httpd",
		summary:     fmt.Sprintf("Apache httpd and %d MiB of files that it serves", files*HTTPDFileSize>>20),
		packages:    []string{"apache2-bin"},
		programs:    append([]string{"/usr/sbin/apache2"}, modulePaths(httpdModules)...),
		keep:        []string{"libgcc-s1"}, // which the C library loads to end a thread
		directories: []string{"data", httpdRoot},
		config: Config{
			Cmd:        []string{"/usr/sbin/apache2", "-D", "FOREGROUND", "-f", "/etc/httpd.conf", "-c", "Listen 80"},
			WorkingDir: "/data",
			Ports:      []int{80},
		},
		add: func(_ context.Context, b *build) error { return addSite(b, files) },
		sources: func() ([]byte, error) {
			size := strconv.Itoa(files) + " " + strconv.Itoa(HTTPDFileSize)
			return []byte(httpdConfiguration() + mimeTypes + HTTPDIndex + size), nil
		},
	}
}

// What the server's document root holds: files of one size, and an index.
const (
	HTTPDFiles    = 4096
	HTTPDFileSize = 16 << 10
	// HTTPDIndex is the whole of the page at /.
	HTTPDIndex = "<!doctype html><title>tare</title><p>It serves.</p>\n"

	httpdRoot = "srv/www"
	mimeTypes = "text/html html\ntext/plain txt\n"
)

// HTTPDFile is the path, on the server, of one of the files, from 0.
func HTTPDFile(n int) string { return fmt.Sprintf("/%04d.txt", n) }

// httpdModules are those that the distribution enables, save for what only
// serves passwords and its own status page.
var httpdModules = []string{
	"mpm_event", "alias", "authz_core", "authz_host", "autoindex", "deflate", "dir", "env", "filter", "mime",
	"negotiation", "reqtimeout", "setenvif",
}

// modulePaths is where modules of Apache's server lie.
func modulePaths(modules []string) []string {
	var paths []string
	for _, name := range modules {
		paths = append(paths, "/usr/lib/apache2/modules/mod_"+name+".so")
	}
	return paths
}

// loadModules has the server load them.
func loadModules(modules []string) string {
	var b strings.Builder
	for _, name := range modules {
		fmt.Fprintf(&b, "LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", name, name)
	}
	return b.String()
}

// httpdConfiguration leaves to the command line where the server listens. What
// it says goes to standard error and, where ACCESS_LOG is defined, a line for
// each request to standard output, as containers do it.
func httpdConfiguration() string {
	return loadModules(httpdModules) + `ServerRoot /data
DefaultRuntimeDir /data
PidFile /data/httpd.pid
ServerName localhost
User nobody
Group nogroup
ErrorLog /proc/self/fd/2
LogLevel warn
<IfDefine ACCESS_LOG>
	CustomLog /proc/self/fd/1 "%h %l %u %t \"%r\" %>s %b"
</IfDefine>
TypesConfig /etc/mime.types
DocumentRoot /srv/www
DirectoryIndex index.html
KeepAlive On
MaxKeepAliveRequests 0
<Directory />
	AllowOverride None
	Require all denied
</Directory>
<Directory /srv/www>
	Options None
	Require all granted
</Directory>
`
}

// addSite writes the configuration and the files. The first line of each is its
// path, by which a client knows it. The rest is drawn from a fixed seed, so that it is
// the same everywhere and no compression makes little of it.
func addSite(b *build, count int) error {
	files := map[string][]byte{
		"etc/httpd.conf":          []byte(httpdConfiguration()),
		"etc/mime.types":          []byte(mimeTypes),
		httpdRoot + "/index.html": []byte(HTTPDIndex),
	}
	random := rand.New(rand.NewChaCha8([32]byte{1}))
	for n := range count {
		text := bytes.Repeat([]byte{'\n'}, HTTPDFileSize)
		head := copy(text, HTTPDFile(n)) + 1
		for i := head; i < len(text); i++ {
			if i%80 != 79 && i != HTTPDFileSize-1 {
				text[i] = byte('!' + random.IntN('~'-'!'+1))
			}
		}
		files[httpdRoot+HTTPDFile(n)] = text
		// So many are not held in memory at once.
		if len(files) == HTTPDFiles {
			if err := b.writeFiles(files); err != nil {
				return err
			}
			clear(files)
		}
	}
	return b.writeFiles(files)
}

// writeFiles writes files of a root, whatever the umask.
func (b *build) writeFiles(files map[string][]byte) error {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range sortedKeys(files) {
		if err := makeDirectories(root, filepath.Dir(name)); err != nil {
			return err
		}
		if err := root.WriteFile(name, files[name], 0o644); err != nil {
			return err
		}
		if err := root.Chmod(name, 0o644); err != nil {
			return err
		}
	}
	return nil
}
