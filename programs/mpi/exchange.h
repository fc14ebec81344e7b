/*
 * The calls of MPI that both programs make, timed by MPI's own clock, and the
 * line that the first rank prints of them.
 *
 * A call's time is that from its beginning until the rank goes on, waiting for the
 * others included: what a rank does not spend there it computes.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange {
	int rank;
	int ranks;
	int cpus;	     /* that this rank may use; 0 where the kernel does not tell */
	bool yields;	     /* whether a rank that waits gives its CPU away */
	long calls;	     /* of this rank since exchange_start */
	double call_seconds; /* in them */
	double entered;	     /* by the last exchange_enter */
	double started;
	double elapsed; /* by exchange_stop; the first rank begins last and tells the whole */
};

/* exchange_init starts MPI, which ends the program itself where a call fails. */
void exchange_init(struct exchange *e, int *argc, char ***argv);

/* exchange_start waits for all ranks and begins the time that is measured. */
void exchange_start(struct exchange *e);

/* exchange_enter and exchange_leave stand around calls that follow each other, so that
 * the clock, which takes as long as a small call's tenth, is read but twice. */
void exchange_enter(struct exchange *e);
void exchange_leave(struct exchange *e);

/* exchange_broadcast has the first rank's values reach all. */
void exchange_broadcast(struct exchange *e, int32_t *values, int count);

/* exchange_scatter hands each rank its count of the first rank's values. */
void exchange_scatter(struct exchange *e, const int32_t *from, int32_t *to, int count);

/* exchange_reduce puts all ranks' values together, with the first one. */
void exchange_reduce(struct exchange *e, const int64_t *from, int64_t *to, MPI_Op how);

/* exchange_stop ends the time that is measured, once all ranks are done. */
void exchange_stop(struct exchange *e);

/* exchange_print has the first rank print what was measured as members of a JSON
 * object, begun by the caller; every rank must call it. */
void exchange_print(const struct exchange *e);

/* exchange_end ends MPI with the first rank's status for all, since a launcher tells
 * of one. It gives that status. */
int exchange_end(const struct exchange *e, int status);

/* number reads a flag's whole number within bounds, or ends the program with 2. */
long number(const char *program, const char *flag, const char *text, long least, long most);

#endif
