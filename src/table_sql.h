/*-------------------------------------------------------------------------
 *
 * table_sql.h
 *	  The statements of the table store.
 *
 * The statements run as the owner of the table, so that callers need no rights
 * on it, and name all that they use by schema.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_TABLE_SQL_H
#define RL_TABLE_SQL_H

#include "algorithm.h"

#include "executor/spi.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

/*
 * How many rows a look for some removes, and how long they must have expired: a
 * key that is used now and then keeps its row.
 */
#define RL_PRUNE_ROWS			128
#define RL_PRUNE_GRACE			"'1 minute'"

typedef enum RlStatement
{
	RL_SQL_INSERT_ROW,
	RL_SQL_UPDATE_ROW,
	RL_SQL_RESET,
	RL_SQL_RESET_PREFIX,
	RL_SQL_FIND_KEY,
	RL_SQL_FIND_PREFIX,
	RL_SQL_PRUNE,
	RL_SQL_PRUNE_SOME,
	RL_SQL_SELECT_ALL,
	RL_SQL_SELECT_POLICY,
	RL_SQL_HAS_OVERRIDES,
	RL_SQL_SELECT_OVERRIDES,
	RL_NUM_STATEMENTS
} RlStatement;

/* no statement has more arguments */
#define RL_TABLE_MAX_ARGS		11

/* The table while it is worked with, and what is to be put back then. */
typedef struct RlTableSession
{
	Relation	relation;
	Oid			user;
	int			security_context;
} RlTableSession;

extern void rl_open_as_owner(RlTableSession *session, Oid schema,
							 const char *table, LOCKMODE lock);
extern void rl_table_open(RlTableSession *session, Oid schema,
						  LOCKMODE lock);
extern int	rl_set_safe_path(void);
extern void rl_table_close(const RlTableSession *session);

/* between SPI_connect() and SPI_finish() */
extern int64 rl_table_run(RlStatement statement, Datum *args);
extern int64 rl_table_query(RlStatement statement, Datum *args,
							const char *nulls);
extern Datum rl_table_column(int64 row, int number);
extern bool rl_nullable_column(int64 row, int number, Datum *value);

/* the column "state" */
extern Datum rl_state_to_array(const RlLimit *limit, const RlState *state);
extern void rl_state_from_array(const RlLimit *limit, Datum value,
								RlState *state, RlHit *hits);

/* the column "window_unit", by RlUnit */
extern const char *const rl_unit_names[];

#endif							/* RL_TABLE_SQL_H */
