package programs

import _ "embed"

// Heap is the Java source of the web server that holds its objects on Java's heap.
//
//go:embed heap/Heap.java
var Heap []byte

// HeapJava is its file's name.
const HeapJava = "Heap.java"

// HeapFlags are javac's flags for it, the same as in its Makefile.
var HeapFlags = []string{"-encoding", "UTF-8", "--release", "17", "-g:none", "-Xlint:all", "-Werror"}
