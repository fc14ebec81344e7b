// plant.c is a library to be preloaded into a service. It slows the service down by a known
// amount: after each successful read(2) on a connection that was accepted, it burns CPU
// time in a loop whose iterations are counted, and no clock read.
//
// What it burns is in a file that it maps, /data/tare-plant, so that one process can be
// measured with and without it: a write to the file changes the next read.
//
// Stalls are for whole stretches of load: one stretch in each twenty, drawn from the seed
// and the process's identity. A stretch begins where no request came for GAP milliseconds,
// as when the service stood frozen meanwhile; the kernel's coarse clock is read for that,
// and only where stalls are asked for.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 65536, GAP = 16, STRETCHES = 20 };

// control has the form that bench/resolution writes: little-endian, packed by nature.
struct control {
	volatile uint32_t on;         // 0: nothing is burnt
	volatile uint32_t iterations; // after each read
	volatile uint32_t stall;      // iterations more, in a stretch that stalls
	volatile uint32_t unused;
	volatile uint64_t seed;
};

static const struct control *control;
static unsigned char accepted[DESCRIPTORS];

// A service without its plant would pass for one that is slowed down: it does not start.
__attribute__((constructor)) static void map(void) {
	int fd = open("/data/tare-plant", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		abort();
	}
	void *at = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		abort();
	}
	control = at;
	close(fd);
}

static void burn(uint32_t iterations) {
	for (uint32_t i = 0; i < iterations; i++) {
		__asm__ volatile("" ::: "memory");
	}
}

// mixed is the finaliser of MurmurHash3: every bit of x changes about half of the result's.
static uint64_t mixed(uint64_t x) {
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ (x >> 33);
}

// stalls tells whether the stretch that the service is in stalls.
static int stalls(void) {
	static int64_t before;
	static uint64_t stretch;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	int64_t at = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	if (at - before >= GAP) {
		stretch++;
	}
	before = at;
	uint64_t drawn = mixed(control->seed ^ mixed((uint64_t)getpid()) ^ (stretch / STRETCHES));
	return drawn % STRETCHES == stretch % STRETCHES;
}

ssize_t read(int fd, void *to, size_t size) {
	ssize_t got = syscall(SYS_read, fd, to, size);
	if (got > 0 && fd >= 0 && fd < DESCRIPTORS && accepted[fd] && control->on) {
		burn(control->iterations);
		if (control->stall && stalls()) {
			burn(control->stall);
		}
	}
	return got;
}

int accept4(int listener, struct sockaddr *restrict from, socklen_t *restrict size, int flags) {
	int fd = (int)syscall(SYS_accept4, listener, from, size, flags);
	if (fd >= 0 && fd < DESCRIPTORS) {
		accepted[fd] = 1;
	}
	return fd;
}

int accept(int listener, struct sockaddr *restrict from, socklen_t *restrict size) {
	return accept4(listener, from, size, 0);
}

int close(int fd) {
	if (fd >= 0 && fd < DESCRIPTORS) {
		accepted[fd] = 0;
	}
	return (int)syscall(SYS_close, fd);
}
