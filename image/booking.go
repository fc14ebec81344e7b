package image

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tare/programs"
)

// What booking's image holds.
const (
	// BookingNode runs the site's two programs.
	BookingNode        = "/usr/bin/node"
	BookingApplication = bookingPrograms + "/app.js"
	BookingAuth        = bookingPrograms + "/auth.js"
	// BookingJava runs the database, whose class path and class BookingDatabase holds;
	// what follows is its address, its port, and its file.
	BookingJava     = "/usr/bin/java"
	BookingDatabase = "/etc/booking.args"
	// BookingData is where the database has its file.
	BookingData = "/data"
	// Ports, where nobody asks for others.
	BookingPort         = 9080
	BookingAuthPort     = 9081
	BookingDatabasePort = 9082

	bookingPrograms = "/usr/lib/tare-booking"
)

// bookingRecipe holds S3's critical service: a booking site of three programs, which
// can run in one container or in three. The application and the authentication service
// are ours on Node.js; the document database is docstore's.
var bookingRecipe = recipe{
	name:     "booking",
	summary:  "booking site of three programs: application and authentication service on Node.js, and docstore's database",
	packages: append([]string{"nodejs"}, javaPackages...),
	programs: append([]string{BookingNode}, javaPrograms...),
	// JavaScript that the distribution's Node.js has beside it and not within.
	keep:        []string{"node-acorn", "node-cjs-module-lexer", "node-undici", "node-busboy"},
	directories: []string{BookingData[1:]},
	jars:        docstoreRecipe.jars,
	modules:     []string{"express@4.21.2", "mongodb@6.8.0"},
	config: Config{
		Cmd: []string{
			Supervise,
			BookingJava,
			"-Xmx64m",
			"@" + BookingDatabase,
			"127.0.0.1",
			fmt.Sprint(BookingDatabasePort),
			BookingData + "/booking.mv",
			"--",
			BookingNode,
			BookingAuth,
			"--address",
			"127.0.0.1",
			"--port",
			fmt.Sprint(BookingAuthPort),
			"--database",
			fmt.Sprintf("127.0.0.1:%d", BookingDatabasePort),
			"--",
			BookingNode,
			BookingApplication,
			"--address",
			"0.0.0.0",
			"--port",
			fmt.Sprint(BookingPort),
			"--auth",
			fmt.Sprintf("127.0.0.1:%d", BookingAuthPort),
			"--database",
			fmt.Sprintf("127.0.0.1:%d", BookingDatabasePort),
		},
		WorkingDir: BookingData,
		Ports:      []int{BookingPort},
	},
	tools: javaCompilerRecipe.name,
	add:   addBooking,
	sources: func() ([]byte, error) {
		supervise, err := sourcesOf(
			programs.Supervise,
			slices.Concat(programs.SuperviseFlags, programs.SuperviseSources),
		)
		if err != nil {
			return nil, err
		}
		return sourcesOf(programs.Booking, append(programs.BookingJavaFlags, databaseClass, bookingPrograms), supervise)
	},
}

// javaCompilerRecipe is the compiler with Java's beside it.
var javaCompilerRecipe = recipe{
	name:     "compiler-java",
	packages: append([]string{"openjdk-17-jdk-headless"}, compilerRecipe.packages...),
	programs: slices.Concat([]string{"/usr/lib/jvm/java-17-openjdk-*/bin/javac"}, javaPrograms, compilerRecipe.programs),
	keep:     compilerRecipe.keep,
}

func addBooking(ctx context.Context, b *build) error {
	sources, err := sourcesIn(programs.Supervise)
	if err != nil {
		return err
	}
	err = b.compile(ctx, Supervise[1:], sources, programs.SuperviseFlags, programs.SuperviseSources...)
	if err != nil {
		return err
	}
	if sources, err = sourcesIn(programs.Booking); err != nil {
		return err
	}
	placed := map[string][]byte{}
	for name, text := range sources {
		if path.Ext(name) == ".js" {
			placed[path.Join(bookingPrograms[1:], name)] = text
		}
	}
	if err := b.addDatabase(ctx, bookingPrograms); err != nil {
		return err
	}
	if err := b.writeFiles(placed); err != nil {
		return err
	}
	return b.addJava(BookingDatabase, databaseClass, bookingPrograms)
}

// compileJava compiles one source against the image's archives, inside the tools' root,
// and gives the classes by their files' names.
func (b *build) compileJava(
	ctx context.Context,
	name string,
	source []byte,
	flags []string,
) (map[string][]byte, error) {
	const at = "/tmp/java"
	jars, err := filepath.Glob(filepath.Join(b.root, jarDirectory, "*.jar"))
	if err != nil {
		return nil, err
	}
	placed := map[string][]byte{path.Join(at[1:], name): source}
	var classPath []string
	for _, jar := range jars {
		file := path.Join(at, filepath.Base(jar))
		if placed[file[1:]], err = os.ReadFile(jar); err != nil {
			return nil, err
		}
		classPath = append(classPath, file)
	}
	tools := &build{root: b.tools}
	if err := tools.writeFiles(placed); err != nil {
		return nil, err
	}
	compilers, err := filepath.Glob(filepath.Join(b.tools, "usr/lib/jvm/java-17-openjdk-*/bin/javac"))
	if err != nil || len(compilers) != 1 {
		return nil, fmt.Errorf("the tools bring %d compilers of Java, want one (%w)", len(compilers), err)
	}
	command := append([]string{strings.TrimPrefix(compilers[0], b.tools)}, flags...)
	command = append(command, "-cp", strings.Join(classPath, ":"), "-d", at+"/classes", path.Join(at, name))
	if _, err := b.chroot(ctx, b.tools, nil, command...); err != nil {
		return nil, err
	}
	classes := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(b.tools, at, "classes", "*.class"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if classes[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return classes, nil
}
