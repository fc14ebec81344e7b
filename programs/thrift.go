package programs

import "embed"

//go:generate ./thrift/generate.sh

// ThriftPython are the Python sources of S4's service and its client, in the
// directory "thrift/python".
//
//go:embed thrift/python/*.py thrift/python/latency/*.py
var ThriftPython embed.FS

// ThriftServer are the Go sources of the same service, in the directory
// "thrift/server". They are a package of this module, too, so that Go's own tools
// look after them.
//
//go:embed thrift/server/*.go
var ThriftServer embed.FS

// Matrix is the C source of the program that multiplies matrices.
//
//go:embed matrix/matrix.c
var Matrix []byte

// MatrixFlags are the compiler's flags for it, the same as in its Makefile.
var MatrixFlags = []string{"-std=gnu17", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror"}
