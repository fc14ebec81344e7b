package image

import (
	"context"
	"strconv"
)

// multimodelRecipe holds a multi-model database (documents, key-value pairs,
// graphs), ArcadeDB, on the distribution's Java. It stands for ArangoDB, which no
// package archive here has.
var multimodelRecipe = recipe{
	name:        "multimodel",
	summary:     "multi-model database: ArcadeDB, and Java to run it",
	packages:    javaPackages,
	programs:    javaPrograms,
	directories: []string{"data"},
	jars:        []string{"com.arcadedb:arcadedb-server:24.2.1"},
	config: Config{
		Cmd:        MultimodelCommand("512", "0.0.0.0", 2480),
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

// MultimodelCommand starts the server at an address and a port, with so many MiB of heap.
func MultimodelCommand(heap, address string, port int) []string {
	return []string{
		"/usr/bin/java", "-Xmx" + heap + "m", "-Darcadedb.server.httpIncomingHost=" + address,
		"-Darcadedb.server.httpIncomingPort=" + strconv.Itoa(port), "@" + multimodelArguments,
	}
}

const (
	multimodelArguments = "/etc/multimodel.args"
	// The server's own monitor of the machine, which asks for more of Java than
	// Java gives by default, is let in. It writes below /data and nowhere else.
	multimodelOptions = "--add-exports=java.management/sun.management=ALL-UNNAMED\n" +
		"-Darcadedb.server.rootPath=/data\n" +
		"-Darcadedb.server.rootPassword=" + MultimodelPassword + "\n" +
		"-Darcadedb.server.defaultDatabases=" + MultimodelDatabase + "[" + MultimodelUser + "]\n" +
		"com.arcadedb.server.ArcadeDBServer\n"
)
