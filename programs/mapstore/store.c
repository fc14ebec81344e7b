#include "store.h"

#include "record.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE 4096UL
/* Records that are made in one transaction: it holds their pages in memory. */
#define AT_ONCE 100000

struct store {
	MDB_env *env;
	MDB_dbi database;
	MDB_txn *reading;
	bool writable;
};

/*
 * map_size is the most that a store of so many records takes: a record with its
 * headers takes less than 160 bytes; the rest is for updates, which LMDB writes
 * beside what they replace.
 */
static size_t map_size(uint64_t records)
{
	return (records * 160 / PAGE + 4096) * PAGE;
}

static int append(MDB_txn *txn, MDB_dbi database, uint64_t from, uint64_t to)
{
	char key[KEY], field[FIELD];
	int error = 0;

	for (uint64_t number = from; number < to && !error; number++) {
		MDB_val k = { KEY - 1, key }, v = { FIELD, field };

		record_key(number, key);
		record_field(number, field);
		error = mdb_put(txn, database, &k, &v, MDB_APPEND);
	}
	return error;
}

static int fill(MDB_env *env, uint64_t records)
{
	for (uint64_t from = 0; from < records; from += AT_ONCE) {
		uint64_t to = from + AT_ONCE < records ? from + AT_ONCE : records;
		MDB_txn *txn;
		MDB_dbi database;
		int error = mdb_txn_begin(env, NULL, 0, &txn);

		if (error)
			return error;
		error = mdb_dbi_open(txn, NULL, 0, &database);
		if (!error)
			error = append(txn, database, from, to);
		if (error) {
			mdb_txn_abort(txn);
			return error;
		}
		error = mdb_txn_commit(txn);
		if (error)
			return error;
	}
	return 0;
}

/*
 * The file is written through its map, whose pages begin as zeros: what LMDB does
 * not initialise is the same every time. Afterwards it is cut to what is used.
 */
int store_make(const char *path, uint64_t records)
{
	MDB_env *env;
	MDB_envinfo info = { 0 };
	int error;

	if (unlink(path) != 0 && errno != ENOENT)
		return errno;
	error = mdb_env_create(&env);
	if (error)
		return error;
	error = mdb_env_set_mapsize(env, map_size(records));
	if (!error)
		error = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_WRITEMAP, 0644);
	if (!error)
		error = fill(env, records);
	if (!error)
		error = mdb_env_info(env, &info);
	mdb_env_close(env);
	if (!error && truncate(path, (off_t)((info.me_last_pgno + 1) * PAGE)) != 0)
		error = errno;
	return error;
}

int store_open(const char *path, bool writable, struct store **opened)
{
	unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS;
	struct store *store = calloc(1, sizeof(*store));
	int error;

	if (!store)
		return ENOMEM;
	store->writable = writable;
	flags |= writable ? MDB_WRITEMAP | MDB_NOSYNC : MDB_RDONLY;
	error = mdb_env_create(&store->env);
	if (!error)
		error = mdb_env_open(store->env, path, flags, 0644);
	if (!error)
		error = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reading);
	if (!error)
		error = mdb_dbi_open(store->reading, NULL, 0, &store->database);
	if (error)
		store_close(store);
	else
		*opened = store;
	return error;
}

void store_close(struct store *store)
{
	if (store->reading)
		mdb_txn_abort(store->reading);
	if (store->env)
		mdb_env_close(store->env);
	free(store);
}

uint64_t store_records(struct store *store)
{
	MDB_stat stat = { 0 };

	mdb_stat(store->reading, store->database, &stat);
	return stat.ms_entries;
}

int store_get(struct store *store, struct bytes key, struct bytes *value)
{
	MDB_val k = { key.size, (void *)key.at }, v;
	int error = mdb_get(store->reading, store->database, &k, &v);

	*value = (struct bytes){ NULL, 0 };
	if (error)
		return error == MDB_NOTFOUND ? 0 : error;
	*value = (struct bytes){ v.mv_data, v.mv_size };
	return 0;
}

/* What is read afterwards is read from after the write. */
int store_put(struct store *store, struct bytes key, struct bytes value)
{
	MDB_val k = { key.size, (void *)key.at }, v = { value.size, (void *)value.at };
	MDB_txn *txn;
	int error, renewed;

	if (!store->writable)
		return EACCES;
	/* Without locks a reader under way would have its pages written over. */
	mdb_txn_reset(store->reading);
	error = mdb_txn_begin(store->env, NULL, 0, &txn);
	if (!error) {
		error = mdb_put(txn, store->database, &k, &v, 0);
		if (error)
			mdb_txn_abort(txn);
		else
			error = mdb_txn_commit(txn);
	}
	renewed = mdb_txn_renew(store->reading);
	return error ? error : renewed;
}

const char *store_error(int error)
{
	return mdb_strerror(error);
}
