package image

import "context"

// multimodelRecipe holds a multi-model database (documents, key-value pairs,
// graphs), ArcadeDB, on the distribution's Java. It stands for ArangoDB, which no
// package archive here has.
var multimodelRecipe = recipe{
	name:        "multimodel",
	summary:     "multi-model database: ArcadeDB, and Java to run it",
	packages:    docstoreRecipe.packages,
	programs:    docstoreRecipe.programs,
	directories: []string{"data"},
	jars:        []string{"com.arcadedb:arcadedb-server:24.2.1"},
	config: Config{
		Cmd:        []string{"/usr/bin/java", "@" + multimodelArguments},
		WorkingDir: "/data",
		Ports:      []int{2480},
	},
	add: func(_ context.Context, b *build) error { return b.addJava(multimodelArguments, multimodelOptions) },
	sources: func() ([]byte, error) {
		return []byte(multimodelOptions), nil
	},
}

// Who the database's user is, whom a client has to be.
const (
	MultimodelUser     = "root"
	MultimodelPassword = "tare-weighs"
	MultimodelDatabase = "ycsb"
)

const (
	multimodelArguments = "/etc/multimodel.args"
	// The server's own monitor of the machine, which asks for more of Java than
	// Java gives by default, is let in. It writes below /data and nowhere else.
	multimodelOptions = "--add-exports=java.management/sun.management=ALL-UNNAMED\n" +
		"-Darcadedb.server.rootPath=/data\n" +
		"-Darcadedb.server.httpIncomingHost=0.0.0.0\n" +
		"-Darcadedb.server.httpIncomingPort=2480\n" +
		"-Darcadedb.server.rootPassword=" + MultimodelPassword + "\n" +
		"-Darcadedb.server.defaultDatabases=" + MultimodelDatabase + "[" + MultimodelUser + "]\n" +
		"com.arcadedb.server.ArcadeDBServer\n"
)
