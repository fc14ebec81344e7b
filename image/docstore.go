package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// docstoreRecipe holds a document database that speaks MongoDB's wire protocol:
// mongo-java-server with its H2 backend, on the distribution's Java. It is not
// MongoDB, which no package archive here has; what is alike is the protocol, a
// server that maps its data file into memory, and a run-time of its own to start.
//
// The Java archive of shared classes, which the distribution's script would dump
// when the package is installed, is left out: no dump is the same as the next.
var docstoreRecipe = recipe{
	name:     "docstore",
	summary:  "document database with MongoDB's wire protocol: mongo-java-server on H2, and Java to run it",
	packages: []string{"openjdk-17-jre-headless"},
	programs: []string{
		"/usr/lib/jvm/java-17-openjdk-*/bin/java", "/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libnet.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libnio.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libjimage.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libverify.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libzip.so", "/usr/lib/jvm/java-17-openjdk-*/lib/libmanagement.so",
		"/usr/lib/jvm/java-17-openjdk-*/lib/libextnet.so",
	},
	directories: []string{"data"},
	jars:        []string{"de.bwaldvogel:mongo-java-server-h2-backend:1.45.0"},
	config: Config{
		Cmd:        []string{"/usr/bin/java", "@/etc/docstore.args", "/data/docs.mv"},
		WorkingDir: "/data",
		Ports:      []int{27017},
	},
	add: addDocstore,
	sources: func() ([]byte, error) {
		return []byte(docstoreHosts + docstoreMain), nil
	},
}

const (
	docstoreMain = "de.bwaldvogel.mongo.H2MongoServer"
	// docstoreHosts makes the server reachable. Its main program listens at the
	// address that Java has for "localhost" and can be told no other; Java can be
	// told, by this file, that the name stands for every address.
	docstoreHosts = "0.0.0.0 localhost\n"
)

// addDocstore writes how Java is called, and gives it its usual name, which the
// package leaves to a script.
func addDocstore(_ context.Context, b *build) error {
	locked, _, _, err := readLock(b.recipe.name, debianArch(b.store.arch))
	if err != nil {
		return err
	}
	var classes []string
	for _, j := range locked.Jars {
		classes = append(classes, "/"+path.Join(jarDirectory, j.file()))
	}
	err = b.writeFiles(map[string][]byte{
		"etc/docstore.hosts": []byte(docstoreHosts),
		"etc/docstore.args": []byte("-Djdk.net.hosts.file=/etc/docstore.hosts\n-cp " + strings.Join(classes, ":") +
			"\n" + docstoreMain + "\n"),
	})
	if err != nil {
		return err
	}
	java, err := fs.Glob(os.DirFS(b.root), "usr/lib/jvm/java-17-openjdk-*/bin/java")
	if err != nil {
		return err
	}
	if len(java) != 1 {
		return fmt.Errorf("the packages bring %d Java run-times, want one", len(java))
	}
	return b.link("usr/bin/java", "/"+java[0])
}
