/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that saves the memory store.
 *
 * With shared_preload_libraries the server starts it.  Without, the call that
 * sets the arena up registers it, and so does a later session that finds none
 * running.  Whenever it ends while the server goes on, it is started again.
 *
 * It saves every rate_limit.save_interval.  At shutdown the postmaster saves
 * once more if the arena is in its memory, which is when nobody counts any more;
 * else the worker does so when it is told to stop.  After a crash of another
 * process it is stopped without saving, since shared memory may be damaged:
 * then what was saved last is restored.
 *
 * Each time it also looks for databases that have been dropped, whose counters
 * nobody will ask for again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker.h"

#include "memory.h"
#include "save.h"
#include "settings.h"
#include "shmem.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* after how many seconds the server starts it again when it has ended */
#define RESTART_SECONDS			10

/* for how long a session waits for it to start, in milliseconds */
#define START_MSECS				1000

/* how long it waits when it has nothing to save, in milliseconds */
#define IDLE_MSECS				60000L

/*-------------------------------------------------------------------------
 * Starting it
 *-------------------------------------------------------------------------
 */

static void
describe(BackgroundWorker *worker)
{
	memset(worker, 0, sizeof(BackgroundWorker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_ConsistentState;
	worker->bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker->bgw_library_name, "rate_limit", BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, "rl_worker_main", BGW_MAXLEN);
	strlcpy(worker->bgw_name, "rate_limit worker", BGW_MAXLEN);
	strlcpy(worker->bgw_type, "rate_limit worker", BGW_MAXLEN);
}

/* Call from _PG_init: with preload, has the server start the worker. */
void
rl_register_worker(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress)
		return;
	describe(&worker);
	RegisterBackgroundWorker(&worker);
}

/*
 * Wait a little until the postmaster has started the worker: if it is told to
 * shut down before, it does not, and what was counted would be lost.
 */
static void
wait_for_start(BackgroundWorkerHandle *worker)
{
	TimestampTz began = GetCurrentTimestamp();
	pid_t		pid;

	while (GetBackgroundWorkerPid(worker, &pid) == BGWH_NOT_YET_STARTED &&
		   !TimestampDifferenceExceeds(began, GetCurrentTimestamp(), START_MSECS))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
						 WL_EXIT_ON_PM_DEATH, START_MSECS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Start the worker of an arena that was set up on first use. */
void
rl_start_worker(void)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	describe(&worker);
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, &handle))
		wait_for_start(handle);
	else
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start the background worker of rate_limit"),
				 errdetail("Counters in memory will not survive a restart of the server."),
				 errhint("Raise \"max_worker_processes\", or add \"rate_limit\" to \"shared_preload_libraries\".")));
}

/*-------------------------------------------------------------------------
 * Its life
 *-------------------------------------------------------------------------
 */

/* Forget what databases have left that are not there any more. */
static void
forget_dropped_databases(RlArena *arena)
{
	Oid		   *databases;
	int			n = rl_stats_databases(arena, &databases);

	StartTransactionCommand();
	for (int i = 0; i < n; i++)
	{
		if (!SearchSysCacheExists1(DATABASEOID,
								   ObjectIdGetDatum(databases[i])))
			rl_memory_forget_database(databases[i]);
	}
	CommitTransactionCommand();
	pfree(databases);
}

/* Return how many milliseconds there are until there is something to do. */
static long
msecs_until_turn(TimestampTz last)
{
	long		interval = rl_save_interval == 0 ? IDLE_MSECS :
	rl_save_interval * 1000L;

	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
										   TimestampTzPlusMilliseconds(last, interval));
}

static void
run(RlArena *arena)
{
	TimestampTz last = GetCurrentTimestamp();

	while (!ShutdownRequestPending)
	{
		long		timeout = msecs_until_turn(last);

		if (timeout > 0)
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT |
							 WL_EXIT_ON_PM_DEATH, timeout,
							 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		if (!ShutdownRequestPending && msecs_until_turn(last) <= 0)
		{
			forget_dropped_databases(arena);
			if (rl_save_interval > 0)
				rl_save(arena);

			/* the next time is counted from now: it may have taken long */
			last = GetCurrentTimestamp();
		}
	}
}

void
rl_worker_main(Datum arg)
{
	RlArena    *arena;

	(void) arg;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/* to no database: it reads only what all of them share */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	arena = rl_find_arena();
	if (arena == NULL || !rl_be_the_worker())
		proc_exit(0);

	run(arena);
	if (!arena->preloaded)
		rl_save(arena);

	/* a worker that ends with 0 is not started again */
	proc_exit(1);
}
