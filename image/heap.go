package image

import (
	"context"
	"slices"

	"tare/programs"
)

// What heap's image holds.
const (
	HeapJava = "/usr/bin/java"
	// HeapArguments are the arguments of Java that start the server; its address and port, and
	// the KiB of garbage that a request makes, follow.
	HeapArguments = "/etc/heap.args"

	heapClasses = "/usr/lib/tare-heap"
)

// heapRecipe holds a web server that has its objects on Java's heap, and Java.
var heapRecipe = recipe{
	name:     "heap",
	summary:  "web server that keeps its objects on Java's heap, and Java to run it",
	packages: javaPackages,
	programs: javaPrograms,
	config: Config{
		Cmd:        []string{HeapJava, "-Xmx128m", "@" + HeapArguments, "0.0.0.0", "8090", "1024"},
		WorkingDir: "/",
		Ports:      []int{8090},
	},
	tools: javaCompilerRecipe.name,
	add:   addHeap,
	sources: func() ([]byte, error) {
		return source(slices.Concat(programs.HeapFlags, []string{heapOptions, heapClasses}), programs.Heap), nil
	},
}

// heapOptions have the machine do nothing by the clock while nobody asks: no counters
// for others to look at, no pause but for a collector, no look at which connections
// are idle. A client comes back after seconds, or minutes. One compiler, the quick one,
// and little room for what it makes: what is weighed is the heap.
const heapOptions = `-XX:-UsePerfData
-XX:+UnlockDiagnosticVMOptions
-XX:GuaranteedSafepointInterval=0
-XX:TieredStopAtLevel=1
-XX:ReservedCodeCacheSize=16m
-XX:+ExitOnOutOfMemoryError
-Xss256k
-Djava.net.preferIPv4Stack=true
-Dsun.net.httpserver.nodelay=true
-Dsun.net.httpserver.idleInterval=1000000
-Dsun.net.httpserver.clockTick=3600000
Heap
`

func addHeap(ctx context.Context, b *build) error {
	classes, err := b.compileJava(ctx, programs.HeapJava, programs.Heap, programs.HeapFlags)
	if err != nil {
		return err
	}
	placed := map[string][]byte{}
	for name, class := range classes {
		placed[heapClasses[1:]+"/"+name] = class
	}
	if err := b.writeFiles(placed); err != nil {
		return err
	}
	return b.addJava(HeapArguments, heapOptions, heapClasses)
}
