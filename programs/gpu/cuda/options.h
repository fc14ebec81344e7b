// A program's command line: the same flags for all, with each one's own ranges and defaults.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <getopt.h>
#include <sys/random.h>

#include "failure.h"

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

inline void help(const Program &p, FILE *to)
{
	fprintf(to, "usage: %s [--size N%s] [--iterations K] [--warmup N] [--seed S] [--memory pageable|pinned] [--device I]\n", p.name, p.edges ? "[xNxN]" : "");
	fprintf(to, "       %*s [--check] [--each-kernel]%s\n\n%s\n", int(strlen(p.name)), "", p.task ? " [--task training|inference]" : "", p.does);
	fprintf(to, "  --size         %s, %ld to %ld; default %ld\n", p.size_means, p.least, p.most, p.size);
	fprintf(to, "  --iterations   timed repetitions (%s), 1 to %ld; default %ld\n", p.iterations_means, most_iterations, p.iterations);
	fprintf(to, "  --warmup       repetitions before them that count for nothing, 0 to %ld; default 1\n", most_warmup);
	fprintf(to, "  --seed         of the input, 0 to 2^53-1; default: drawn from the system, and printed\n");
	fprintf(to, "  --memory       of the host, from and to which is copied: pageable (default) or pinned\n");
	fprintf(to, "  --device       which of those that are seen, from 0; default 0\n");
	fprintf(to, "  --check        compare the results with a reference on the CPU\n");
	fprintf(to, "  --each-kernel  time every launch by events of its own; iterations then take longer\n");
	if (p.task)
		fprintf(to, "  --task         training or inference; default %s\n", p.task);
	fprintf(to, "\nIt prints one line of JSON: times in seconds, rates in bytes and operations a second.\n"
		    "Exit status: 0; 1 failed, 2 usage, 10 no driver, 11 driver older than the program,\n"
		    "12 no such device, 13 no code for the device, 14 PTX newer than the driver, 15 PTX cannot\n"
		    "be compiled, 16 device memory, 17 device busy, 18 memory of a MIG instance, 19 driver not\n"
		    "ready, 20 device failed, 21 results wrong, 22 host memory.\n\nExample: %s\n",
		p.example);
}

inline long number(const char *flag, const char *text, long least, long most)
{
	char *end;

	errno = 0;
	long v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < least || v > most)
		fail(Cause::usage, "--%s %s: want a whole number from %ld to %ld", flag, text, least, most);
	return v;
}

inline void read_size(const Program &p, Options &o, const char *text)
{
	char copy[64];
	char *rest = copy;
	int n = 0;

	if (strlen(text) >= sizeof copy)
		fail(Cause::usage, "--size %.20s...: want a whole number from %ld to %ld", text, p.least, p.most);
	strcpy(copy, text);
	while (rest != nullptr) {
		char *one = rest;
		rest = strchr(rest, 'x');
		if (rest != nullptr)
			*rest++ = '\0';
		if (n == (p.edges ? 3 : 1))
			fail(Cause::usage, "--size %s: want %s", text, p.edges ? "one number or three" : "one number");
		o.size[n++] = number("size", one, p.least, p.most);
	}
	if (n == 2)
		fail(Cause::usage, "--size %s: want one number or three", text);
	o.edges = n;
}

inline Options parse(const Program &p, int argc, char **argv)
{
	static const option flags[] = {
		{ "size", required_argument, nullptr, 'n' },
		{ "iterations", required_argument, nullptr, 'k' },
		{ "warmup", required_argument, nullptr, 'w' },
		{ "seed", required_argument, nullptr, 's' },
		{ "memory", required_argument, nullptr, 'm' },
		{ "device", required_argument, nullptr, 'd' },
		{ "check", no_argument, nullptr, 'c' },
		{ "each-kernel", no_argument, nullptr, 'e' },
		{ "task", required_argument, nullptr, 't' },
		{ "help", no_argument, nullptr, 'h' },
		{ nullptr, 0, nullptr, 0 },
	};
	Options o;
	int flag;

	program_name = p.name;
	o.size[0] = p.size;
	o.iterations = p.iterations;
	o.task = p.task;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, ":", flags, nullptr)) != -1) {
		switch (flag) {
		case 'n':
			read_size(p, o, optarg);
			break;
		case 'k':
			o.iterations = number("iterations", optarg, 1, most_iterations);
			break;
		case 'w':
			o.warmup = number("warmup", optarg, 0, most_warmup);
			break;
		case 's':
			o.seed = uint64_t(number("seed", optarg, 0, long(most_seed)));
			o.seeded = true;
			break;
		case 'm':
			if (strcmp(optarg, "pageable") != 0 && strcmp(optarg, "pinned") != 0)
				fail(Cause::usage, "--memory %s: want pageable or pinned", optarg);
			o.pinned = strcmp(optarg, "pinned") == 0;
			break;
		case 'd':
			chosen_device = int(number("device", optarg, 0, 1023));
			break;
		case 'c':
			o.check = true;
			break;
		case 'e':
			o.each_kernel = true;
			break;
		case 't':
			if (p.task == nullptr)
				fail(Cause::usage, "--task: %s has but one; see --help", p.name);
			if (strcmp(optarg, "training") != 0 && strcmp(optarg, "inference") != 0)
				fail(Cause::usage, "--task %s: want training or inference", optarg);
			o.task = optarg;
			break;
		case 'h':
			help(p, stdout);
			exit(0);
		case ':':
			fail(Cause::usage, "%s: needs a value; see --help", argv[optind - 1]);
		default:
			fail(Cause::usage, "%s: no such flag; see --help", argv[optind - 1]);
		}
	}
	if (optind < argc)
		fail(Cause::usage, "%s: no such argument; see --help", argv[optind]);
	if (o.edges == 1)
		o.size[1] = o.size[2] = o.size[0];
	if (!o.seeded) {
		if (getrandom(&o.seed, sizeof o.seed, 0) != sizeof o.seed)
			fail(Cause::failed, "draw a seed: %s: give one by --seed", strerror(errno));
		o.seed &= most_seed;
	}
	return o;
}
