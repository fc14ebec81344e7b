#include "exchange.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void exchange_init(struct exchange *e, int *argc, char ***argv)
{
	cpu_set_t allowed;

	memset(e, 0, sizeof(*e));
	/* MPI's clock is there from here on alone. */
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &e->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &e->ranks);
	/* A mask of more CPUs than cpu_set_t holds is refused; so many are no crowd. */
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
		e->cpus = CPU_COUNT(&allowed);
	e->yields = e->cpus > 0 && e->cpus < e->ranks;
}

/*
 * complete waits for a call. Both libraries wait by polling, which is quickest where
 * each rank has a CPU; where it has none, a rank that polls takes the time of the one
 * that it waits for. Open MPI could be told to give way and MPICH not, so that the
 * programs do it themselves, alike for both.
 */
static void complete(MPI_Request *call)
{
	int done = 0;

	for (MPI_Test(call, &done, MPI_STATUS_IGNORE); !done; MPI_Test(call, &done, MPI_STATUS_IGNORE))
		sched_yield();
}

static void meet(const struct exchange *e)
{
	MPI_Request call;

	if (!e->yields) {
		MPI_Barrier(MPI_COMM_WORLD);
		return;
	}
	MPI_Ibarrier(MPI_COMM_WORLD, &call);
	complete(&call);
}

void exchange_enter(struct exchange *e) { e->entered = MPI_Wtime(); }

void exchange_leave(struct exchange *e) { e->call_seconds += MPI_Wtime() - e->entered; }

void exchange_start(struct exchange *e)
{
	meet(e);
	e->calls = 0;
	e->call_seconds = 0;
	e->started = MPI_Wtime();
}

void exchange_stop(struct exchange *e)
{
	exchange_enter(e);
	meet(e);
	e->calls++;
	exchange_leave(e);
	e->elapsed = MPI_Wtime() - e->started;
}

void exchange_broadcast(struct exchange *e, int32_t *values, int n)
{
	MPI_Request call;

	if (e->yields) {
		MPI_Ibcast(values, n, MPI_INT32_T, 0, MPI_COMM_WORLD, &call);
		complete(&call);
	} else {
		MPI_Bcast(values, n, MPI_INT32_T, 0, MPI_COMM_WORLD);
	}
	e->calls++;
}

void exchange_scatter(struct exchange *e, const int32_t *from, int32_t *to, int n)
{
	MPI_Request call;

	if (e->yields) {
		MPI_Iscatter(from, n, MPI_INT32_T, to, n, MPI_INT32_T, 0, MPI_COMM_WORLD, &call);
		complete(&call);
	} else {
		MPI_Scatter(from, n, MPI_INT32_T, to, n, MPI_INT32_T, 0, MPI_COMM_WORLD);
	}
	e->calls++;
}

void exchange_reduce(struct exchange *e, const int64_t *from, int64_t *to, MPI_Op how)
{
	MPI_Request call;

	if (e->yields) {
		MPI_Ireduce(from, to, 1, MPI_INT64_T, how, 0, MPI_COMM_WORLD, &call);
		complete(&call);
	} else {
		MPI_Reduce(from, to, 1, MPI_INT64_T, how, 0, MPI_COMM_WORLD);
	}
	e->calls++;
}

/* name_only leaves a library's name and version of what it says of itself, which goes
 * on after a comma or a line, with nothing that would have to be escaped. */
static void name_only(char *library)
{
	library[strcspn(library, ",\n")] = '\0';
	for (char *c = library; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\')
			*c = ' ';
}

/* print_list prints every second of the values: a rank's two lie together. */
static void print_list(const char *name, const double *values, int n)
{
	printf("\"%s\":[", name);
	for (int i = 0; i < n; i++)
		printf("%s%.9g", i ? "," : "", values[2 * i]);
	printf("]");
}

void exchange_print(const struct exchange *e)
{
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
	double mine[] = { e->elapsed, e->call_seconds }, *seconds = NULL;
	int length;

	if (e->rank == 0) {
		seconds = calloc((size_t)e->ranks, sizeof(mine));
		if (seconds == NULL) {
			fprintf(stderr, "mpi: no memory for the times of %d ranks\n", e->ranks);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	MPI_Gather(mine, 2, MPI_DOUBLE, seconds, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (e->rank != 0)
		return;
	MPI_Get_library_version(library, &length);
	name_only(library);
	printf("\"library\":\"%s\",\"ranks\":%d,\"cpus\":%d,\"yields\":%s,\"calls\":%ld,",
	       library, e->ranks, e->cpus, e->yields ? "true" : "false", e->calls);
	print_list("seconds", seconds, e->ranks);
	printf(",");
	print_list("call_seconds", seconds + 1, e->ranks);
	free(seconds);
}

int exchange_end(const struct exchange *e, int status)
{
	if (e->rank == 0 && fflush(stdout) != 0) {
		perror("mpi: write the results");
		status = 1;
	}
	MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return status;
}

long number(const char *program, const char *flag, const char *text, long least, long most)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < least || v > most) {
		fprintf(stderr, "%s: --%s %s: want a whole number from %ld to %ld\n", program, flag, text, least, most);
		exit(2);
	}
	return v;
}
