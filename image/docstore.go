package image

import "context"

// docstoreRecipe holds a document database that speaks MongoDB's wire protocol:
// mongo-java-server with its H2 backend, on the distribution's Java. It is not
// MongoDB, which no package archive here has; what is alike is the protocol, a
// server that maps its data file into memory, and a run-time of its own to start.
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
		Cmd:        []string{"/usr/bin/java", "@" + docstoreArguments, "/data/docs.mv"},
		WorkingDir: "/data",
		Ports:      []int{27017},
	},
	add: addDocstore,
	sources: func() ([]byte, error) {
		return []byte(docstoreHosts + docstoreOptions), nil
	},
}

const (
	docstoreArguments = "/etc/docstore.args"
	docstoreOptions   = "-Djdk.net.hosts.file=/etc/docstore.hosts\n" + "de.bwaldvogel.mongo.H2MongoServer\n"
	// docstoreHosts makes the server reachable. Its main program listens at the
	// address that Java has for "localhost" and can be told no other; Java can be
	// told, by this file, that the name stands for every address.
	docstoreHosts = "0.0.0.0 localhost\n"
)

func addDocstore(_ context.Context, b *build) error {
	if err := b.writeFiles(map[string][]byte{"etc/docstore.hosts": []byte(docstoreHosts)}); err != nil {
		return err
	}
	return b.addJava(docstoreArguments, docstoreOptions)
}
