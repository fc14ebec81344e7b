/*
 * The records of a store: a name and one field of 100 bytes that follows from
 * the record's number, so that whoever reads it knows whether it is the right one.
 *
 * These are YCSB's records as package workload draws them (workload/ycsb.go), which
 * checks every one that it reads.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdint.h>

#define FIELD 100
/* "user", eight digits and the final zero byte. */
#define KEY 13

/* record_key writes the name of a record, with a final zero byte. */
void record_key(uint64_t number, char key[KEY]);

/* record_field writes a record's field as it is before any update. */
void record_field(uint64_t number, char field[FIELD]);

#endif
