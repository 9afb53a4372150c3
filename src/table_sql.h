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

/* how many expired rows a look for some removes */
#define RL_PRUNE_ROWS			64

typedef enum RlStatement
{
	RL_SQL_UPSERT,
	RL_SQL_UPDATE_ROW,
	RL_SQL_SELECT_ROW,
	RL_SQL_RESET,
	RL_SQL_RESET_PREFIX,
	RL_SQL_FIND_KEY,
	RL_SQL_FIND_PREFIX,
	RL_SQL_PRUNE,
	RL_SQL_PRUNE_SOME,
	RL_SQL_SELECT_ALL,
	RL_NUM_STATEMENTS
} RlStatement;

/* the arguments $1 to $5 say which counter; no statement has more than this */
#define RL_TABLE_IDENTITY_ARGS	5
#define RL_TABLE_MAX_ARGS		9

/* What rl_table_end() has to put back. */
typedef struct RlTableSession
{
	Oid			user;
	int			security_context;
	Oid			relation;
} RlTableSession;

extern void rl_table_begin(RlTableSession *session, Oid schema);
extern void rl_table_end(const RlTableSession *session);
extern int64 rl_table_run(RlStatement statement, Datum *args);
extern Datum rl_table_column(int64 row, int number);

/* the column "state" */
extern Datum rl_state_to_array(const RlLimit *limit, const RlState *state);
extern void rl_state_from_array(const RlLimit *limit, Datum value,
								RlState *state, RlHit *hits);

/* the column "window_unit", by RlUnit */
extern const char *const rl_unit_names[];

#endif							/* RL_TABLE_SQL_H */
