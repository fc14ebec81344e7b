package image

// LikwidBench is the program that the image stream-peer has.
const LikwidBench = "/usr/bin/likwid-bench"

// streamPeerRecipe holds likwid-bench (Treibig, Hager and Wellein, "LIKWID: A
// Lightweight Performance-Oriented Tool Suite", 2010): streaming kernels in assembler,
// against which stream is weighed; and a shell, which runs one after the other. Of
// LIKWID's other programs, which read counters, none is used.
var streamPeerRecipe = recipe{
	name:        "stream-peer",
	summary:     "likwid-bench: streaming kernels in assembler",
	packages:    []string{"likwid", "busybox-static"},
	programs:    []string{LikwidBench, "/bin/busybox"},
	keep:        []string{"libgcc-s1"}, // which the C library opens where a thread ends itself
	directories: []string{"data"},
	config:      Config{Cmd: []string{LikwidBench, "-a"}, WorkingDir: "/"},
}
