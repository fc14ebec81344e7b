package image

import (
	"context"
	"fmt"
	"path"

	"tare/programs"
)

// docstoreRecipe holds a document database that speaks MongoDB's wire protocol:
// mongo-java-server with its H2 backend, on the distribution's Java. It is not
// MongoDB, which no package archive here has; what is alike is the protocol, a
// server that maps its data file into memory, and a run-time of its own to start.
var docstoreRecipe = recipe{
	name:        "docstore",
	summary:     "document database with MongoDB's wire protocol: mongo-java-server on H2, and Java to run it",
	packages:    javaPackages,
	programs:    javaPrograms,
	directories: []string{"data"},
	jars:        []string{"de.bwaldvogel:mongo-java-server-h2-backend:1.45.0"},
	config: Config{
		Cmd:        []string{"/usr/bin/java", "@" + DocstoreArguments, "0.0.0.0", "27017", "/data/docs.mv"},
		WorkingDir: "/data",
		Ports:      []int{27017},
	},
	tools: javaCompilerRecipe.name,
	add: func(ctx context.Context, b *build) error {
		if err := b.addDatabase(ctx, docstoreClasses); err != nil {
			return err
		}
		return b.addJava(DocstoreArguments, databaseClass, docstoreClasses)
	},
	sources: func() ([]byte, error) {
		database, err := programs.Booking.ReadFile("booking/" + programs.BookingJava)
		return source(append(programs.BookingJavaFlags, databaseClass, docstoreClasses), database), err
	},
}

const (
	// DocstoreArguments are the arguments of Java that start the server; its address, its
	// port, and its file follow.
	DocstoreArguments = "/etc/docstore.args"

	docstoreClasses = "/usr/lib/tare-docstore"
	// databaseClass has the server started by a class of our own: its own main program
	// can be given neither address nor port.
	databaseClass = "Database\n"
)

// addDatabase compiles that class.
func (b *build) addDatabase(ctx context.Context, to string) error {
	text, err := programs.Booking.ReadFile("booking/" + programs.BookingJava)
	if err != nil {
		return err
	}
	classes, err := b.compileJava(ctx, programs.BookingJava, text, programs.BookingJavaFlags)
	if err != nil {
		return fmt.Errorf("the database's start: %w", err)
	}
	placed := map[string][]byte{}
	for name, class := range classes {
		placed[path.Join(to[1:], name)] = class
	}
	return b.writeFiles(placed)
}
