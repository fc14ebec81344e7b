/*
 * A service of known demand and its client, for the test that compares the model
 * with the kernel.
 *
 *   service serve TASKS LOOPS             for each byte read, LOOPS turns and a byte back
 *   service ask TASKS N INTERVAL_NS SEED  N requests by each task, and each one's
 *                                         latency in nanoseconds on standard error,
 *                                         a line each
 *
 * Each task is a thread, which reads from descriptor 3 + 2i and writes to 4 + 2i. An
 * interval of 0 is a closed loop; a seed of 0 spaces evenly, any other by
 * exponential gaps. Latency counts from the moment at which a request was due.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
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

static long tasks, loops, requests;
static double interval;
static uint64_t seed;

static void *serve(void *task)
{
	int in = 3 + 2 * (long)task, out = in + 1;
	volatile uint64_t turned = 0;
	char byte;

	if (tasks == 1)
		prefer(); /* several have the slice that all programs have */
	while (read(in, &byte, 1) == 1) {
		for (long i = 0; i < loops; i++)
			turned += i;
		if (write(out, &byte, 1) != 1)
			exit(1);
	}
	close(out);
	return NULL;
}

static double gap(double interval, uint64_t *state)
{
	if (*state == 0)
		return interval;
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return -interval * log(((*state >> 11) + 1) / 9007199254740993.0);
}

static void *ask(void *task)
{
	int in = 3 + 2 * (long)task, out = in + 1;
	int64_t *took = calloc(requests, sizeof *took), start = now();
	uint64_t state = seed;
	double due = 0;
	char byte = 'x';

	if (took == NULL)
		exit(1);
	for (long i = 0; i < requests; i++) {
		int64_t intended = now();

		if (interval > 0) {
			intended = start + (int64_t)due;
			due += gap(interval, &state);
			if (intended > now())
				sleep_until(intended);
		}
		if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
			exit(1);
		took[i] = now() - intended;
	}
	close(out);
	return took;
}

int main(int argc, char **argv)
{
	int asks = argc == 6 && strcmp(argv[1], "ask") == 0;
	pthread_t threads[64];

	if (!asks && !(argc == 4 && strcmp(argv[1], "serve") == 0))
		return 2;
	tasks = atol(argv[2]);
	if (tasks < 1 || tasks > 64)
		return 2;
	if (asks) {
		requests = atol(argv[3]);
		interval = atof(argv[4]);
		seed = strtoull(argv[5], NULL, 10);
	} else {
		loops = atol(argv[3]);
	}
	for (long i = 0; i < tasks; i++)
		if (pthread_create(&threads[i], NULL, asks ? ask : serve, (void *)i) != 0)
			return 1;
	for (long i = 0; i < tasks; i++) {
		void *took;

		pthread_join(threads[i], &took);
		for (long n = 0; asks && n < requests; n++)
			fprintf(stderr, "%lld\n", (long long)((int64_t *)took)[n]);
	}
	return 0;
}
