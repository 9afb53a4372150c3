/*-------------------------------------------------------------------------
 *
 * rate_limit.c
 *	  Loading the module.
 *
 * A call goes one way through the files: functions.c takes it, request.c reads
 * and checks the arguments, store.c has the store decide (memory.c, which finds
 * the counter in the arena and asks algorithm.c), result.c makes the row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "drop.h"
#include "settings.h"
#include "shmem.h"
#include "worker.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	rl_define_settings();
	rl_init_shmem();
	rl_register_worker();
	rl_watch_drop();
}
