/*
 * granted runs a command with the number of CPUs that it may use: each argument that is
 * {} becomes that number. MPI's launchers take the number of ranks beforehand, and see
 * the machine's CPUs where a container has a quota of fewer.
 *
 * It is the CPUs of the process' affinity, or its control group's quota over the period,
 * rounded up, where that is less and the group's files are to be seen, as they are in a
 * container, below /sys/fs/cgroup.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of version 2, and of version 1 under the names by which it is mounted. */
static const char *const maximum = "/sys/fs/cgroup/cpu.max";
static const char *const groups[] = { "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuacct,cpu" };

/* rounded_up gives 0 where there is no quota. */
static long rounded_up(long quota, long period)
{
	return quota > 0 && period > 0 ? (quota - 1) / period + 1 : 0;
}

static long read_number(const char *directory, const char *name)
{
	char path[128];
	long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

/* quota is the CPUs of the control group; 0 where it has no limit, or none to be seen. */
static long quota(void)
{
	FILE *f = fopen(maximum, "re");
	long budget = 0, period = 0;

	if (f != NULL) {
		/* "max PERIOD" where there is none. */
		if (fscanf(f, "%ld %ld", &budget, &period) != 2)
			budget = 0;
		fclose(f);
		return rounded_up(budget, period);
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]) && budget == 0; i++) {
		budget = read_number(groups[i], "cpu.cfs_quota_us");
		period = read_number(groups[i], "cpu.cfs_period_us");
	}
	return rounded_up(budget, period);
}

/* allowed is the CPUs of the affinity, on a machine with any number of them. */
static long allowed(void)
{
	for (int most = 1024; most <= 1 << 20; most *= 2) {
		cpu_set_t *set = CPU_ALLOC(most);
		size_t size = CPU_ALLOC_SIZE(most);
		int n = 0;

		if (set == NULL)
			break;
		CPU_ZERO_S(size, set);
		if (sched_getaffinity(0, size, set) == 0)
			n = CPU_COUNT_S(size, set);
		else if (errno != EINVAL) /* which asks for a larger set */
			most = 1 << 20;
		CPU_FREE(set);
		if (n > 0)
			return n;
	}
	return 1;
}

int main(int argc, char **argv)
{
	char text[24];
	long cpus = allowed(), most = quota();

	if (argc < 2) {
		fputs("usage: granted COMMAND [ARGUMENT|{}]...\n\nExample: granted mpiexec -n {} mpi-search\n", stderr);
		return 2;
	}
	if (most > 0 && most < cpus)
		cpus = most;
	snprintf(text, sizeof(text), "%ld", cpus);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "{}") == 0)
			argv[i] = text;
	execvp(argv[1], argv + 1);
	fprintf(stderr, "granted: run %s: %s\n", argv[1], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
