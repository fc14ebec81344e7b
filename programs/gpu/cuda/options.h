// A program's command line: the same flags for all, with each one's own ranges and defaults.
#pragma once

#include <cstdint>

// Program is what one says of itself.
struct Program {
	const char *name;
	const char *does;       // the first lines of its help
	long size, least, most; // its default and its range
	const char *size_means;
	bool edges;      // its size may be three numbers
	long iterations; // the default
	const char *iterations_means;
	const char *task; // the default of --task; nullptr: there is none
	const char *example;
};

struct Options {
	long size[3];
	int edges = 1; // how many of the sizes were given
	long iterations;
	long warmup = 1;
	uint64_t seed = 0;
	bool seeded = false;
	bool pinned = false;
	bool check = false;
	bool each_kernel = false;
	const char *task;
};

const uint64_t most_seed = (uint64_t(1) << 53) - 1; // what JSON's numbers hold exactly
const long most_iterations = 100000;
const long most_warmup = 1000;

// parse reads the command line, answers --help, and draws the seed that was not given.
Options parse(const Program &program, int argc, char **argv);
