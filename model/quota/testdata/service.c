/*
 * A service of known demand and its client, for the test that compares the model
 * with the kernel.
 *
 *   service serve LOOPS             for each byte read, LOOPS turns and a byte back
 *   service ask N INTERVAL_NS SEED  N requests, and each one's latency in
 *                                   nanoseconds on standard error, a line each
 *
 * Requests go out by standard output and answers come by standard input. An
 * interval of 0 is a closed loop; a seed of 0 spaces evenly, any other by
 * exponential gaps. Latency counts from the moment at which a request was due.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_until(int64_t moment)
{
	struct timespec t = { moment / 1000000000, moment % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/*
 * prefer asks for the shortest slice, so that the service takes the CPU from
 * whatever else runs there as soon as it wakes (Linux 6.12 and newer; elsewhere it
 * does without). Quotas know nothing of slices of this kind.
 */
static void prefer(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { .size = sizeof attributes, .runtime = 100000 };

	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static int serve(long loops)
{
	volatile uint64_t turned = 0;
	char byte;

	prefer();
	while (read(STDIN_FILENO, &byte, 1) == 1) {
		for (long i = 0; i < loops; i++)
			turned += i;
		if (write(STDOUT_FILENO, &byte, 1) != 1)
			return 1;
	}
	return 0;
}

static double gap(double interval, uint64_t *state)
{
	if (*state == 0)
		return interval;
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return -interval * log(((*state >> 11) + 1) / 9007199254740993.0);
}

static int ask(long n, double interval, uint64_t seed)
{
	int64_t *took = calloc(n, sizeof *took), start = now();
	double due = 0;
	char byte = 'x';

	if (took == NULL)
		return 1;
	for (long i = 0; i < n; i++) {
		int64_t intended = now();

		if (interval > 0) {
			intended = start + (int64_t)due;
			due += gap(interval, &seed);
			if (intended > now())
				sleep_until(intended);
		}
		if (write(STDOUT_FILENO, &byte, 1) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
			return 1;
		took[i] = now() - intended;
	}
	for (long i = 0; i < n; i++)
		fprintf(stderr, "%lld\n", (long long)took[i]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(atol(argv[2]));
	if (argc == 5 && strcmp(argv[1], "ask") == 0)
		return ask(atol(argv[2]), atof(argv[3]), strtoull(argv[4], NULL, 10));
	return 2;
}
