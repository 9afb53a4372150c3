/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  How the arena comes to be, and how a process gets at it.
 *
 * With shared_preload_libraries the arena is part of the server's main shared
 * memory, requested and set up at start.  Without, the first call creates a
 * dynamic shared memory segment and pins it, so that it lives as long as the
 * server; its handle is in a small control structure in the slack that the
 * main shared memory has for such cases.  After a crash of a backend the
 * server starts again with new shared memory and new processes, so nothing
 * here has to survive that.
 *
 * A new arena gets the counters that were saved, before anybody sees it.
 *
 * Locks: AddinShmemInitLock covers finding or creating the control structure,
 * RlControl.lock the rest of it: who creates the segment, which the others have
 * to wait for, and who is the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem.h"

#include "save.h"
#include "settings.h"
#include "subtransaction.h"
#include "worker.h"

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/*
 * To be raised when anything in shared memory is laid out anew, so that a new
 * library does not work on the memory that an older one has set up.
 */
#define LAYOUT					2

/* How long a worker that was registered is given to start, in milliseconds. */
#define WORKER_START_MSECS		60000

typedef struct RlControl
{
	int			layout;			/* LAYOUT of who made this */
	LWLock		lock;
	int			tranche;		/* of this lock and those of the arena */
	dsm_handle	segment;		/* of the arena, DSM_HANDLE_INVALID before */
	pid_t		worker;			/* 0 if there is none */
	TimestampTz worker_started; /* when one was registered last */
} RlControl;

static RlControl *control = NULL;
static RlArena *arena = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static Size
arena_bytes(void)
{
	return (Size) rl_memory_kb * 1024;
}

/* Find or create the control structure. */
static void
attach_control(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	control = ShmemInitStruct("rate_limit", sizeof(RlControl), &found);
	if (!found)
	{
		control->layout = LAYOUT;
		control->tranche = LWLockNewTrancheId();
		control->segment = DSM_HANDLE_INVALID;
		control->worker = 0;
		control->worker_started = 0;
		LWLockInitialize(&control->lock, control->tranche);
	}
	LWLockRelease(AddinShmemInitLock);

	if (control->layout != LAYOUT)
	{
		control = NULL;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the memory of rate_limit was set up by another version of its library"),
				 errhint("Restart the server.")));
	}
	LWLockRegisterTranche(control->tranche, "rate_limit");
}

static void
init_arena(RlArena *new_arena, Size bytes, bool preloaded)
{
	if (!pg_strong_random(&new_arena->seed, sizeof(new_arena->seed)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random bytes")));
	rl_init_arena(new_arena, bytes, control->tranche, preloaded);
}

/*-------------------------------------------------------------------------
 * With shared_preload_libraries
 *-------------------------------------------------------------------------
 */

static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(add_size(arena_bytes(), sizeof(RlControl)));
}

/*
 * Tell whether the server has been shut down in good order.  After a crash or an
 * immediate stop processes may have ended in the middle of a change.
 */
static bool
was_shut_down(void)
{
	bool		good;
	ControlFileData *control_file = get_controlfile(DataDir, &good);

	return good && (control_file->state == DB_SHUTDOWNED ||
					control_file->state == DB_SHUTDOWNED_IN_RECOVERY);
}

/* Runs in the postmaster, when all other processes have ended. */
static void
save_at_shutdown(int code, Datum arg)
{
	(void) arg;
	if (code == 0 && arena != NULL && was_shut_down())
		rl_save(arena);
}

/* Runs in the postmaster, at start and after a crash. */
static void
startup_shmem(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	arena = NULL;
	attach_control();
	arena = ShmemInitStruct("rate_limit arena", arena_bytes(), &found);
	if (!found)
	{
		init_arena(arena, arena_bytes(), true);
		rl_restore(arena);
	}
	if (!IsUnderPostmaster)
		on_shmem_exit(save_at_shutdown, (Datum) 0);
}

void
rl_init_shmem(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/*-------------------------------------------------------------------------
 * On first use
 *-------------------------------------------------------------------------
 */

/* Create the segment unless another process was faster. */
static bool
create_segment(void *arg)
{
	Size		bytes = *(Size *) arg;

	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	if (control->segment == DSM_HANDLE_INVALID)
	{
		dsm_segment *segment = dsm_create(bytes, 0);

		init_arena(dsm_segment_address(segment), bytes, false);
		rl_restore(dsm_segment_address(segment));
		dsm_pin_segment(segment);
		dsm_pin_mapping(segment);
		arena = dsm_segment_address(segment);
		control->segment = dsm_segment_handle(segment);
	}
	LWLockRelease(&control->lock);
	return true;
}

/* Tell whether an error says that there may be room for less memory. */
static bool
asks_for_less(const ErrorData *error, Size bytes)
{
	return bytes / 2 >= (Size) RL_MIN_MEMORY_KB * 1024 &&
		(error->sqlerrcode == ERRCODE_DISK_FULL ||
		 error->sqlerrcode == ERRCODE_OUT_OF_MEMORY);
}

/* Return false if it should be tried with fewer bytes. */
static bool
try_create_segment(Size bytes)
{
	ErrorData  *error;

	if (rl_try(create_segment, &bytes, &error))
		return true;
	if (!asks_for_less(error, bytes))
		ReThrowError(error);
	return false;
}

/* Set the arena up with as much of rate_limit.memory as can be had. */
static void
set_up_arena(void)
{
	Size		bytes = arena_bytes();

	while (!try_create_segment(bytes))
		bytes /= 2;

	if (bytes < arena_bytes())
		ereport(LOG,
				(errmsg("rate_limit was set up with %zu kB of shared memory instead of %d kB",
						bytes / 1024, rl_memory_kb),
				 errdetail("There was no room for more dynamic shared memory."),
				 errhint("Give the server more shared memory (in a container: /dev/shm), or add \"rate_limit\" to \"shared_preload_libraries\".")));
}

static void
attach_segment(dsm_handle handle)
{
	dsm_segment *segment = dsm_attach(handle);

	if (segment == NULL)
		elog(ERROR, "could not attach to the shared memory of rate_limit");
	dsm_pin_mapping(segment);
	arena = dsm_segment_address(segment);
}

/*-------------------------------------------------------------------------
 * The worker
 *-------------------------------------------------------------------------
 */

/* Start the worker of an arena in dynamic shared memory if there is none. */
static void
see_to_worker(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		start;

	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	start = control->worker == 0 &&
		TimestampDifferenceExceeds(control->worker_started, now,
								   WORKER_START_MSECS);
	if (start)
		control->worker_started = now;
	LWLockRelease(&control->lock);

	if (start)
		rl_start_worker();
}

static void
worker_ends(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	control->worker = 0;
	LWLockRelease(&control->lock);
}

/* Call from the worker.  Return false if there is another one. */
bool
rl_be_the_worker(void)
{
	bool		done;

	LWLockAcquire(&control->lock, LW_EXCLUSIVE);
	done = control->worker == 0;
	if (done)
		control->worker = MyProcPid;
	LWLockRelease(&control->lock);
	if (done)
		before_shmem_exit(worker_ends, (Datum) 0);
	return done;
}

/*-------------------------------------------------------------------------
 * Getting at the arena
 *-------------------------------------------------------------------------
 */

RlArena *
rl_find_arena(void)
{
	dsm_handle	handle;

	if (arena != NULL)
		return arena;

	if (control == NULL)
		attach_control();
	LWLockAcquire(&control->lock, LW_SHARED);
	handle = control->segment;
	LWLockRelease(&control->lock);

	if (handle != DSM_HANDLE_INVALID)
	{
		attach_segment(handle);
		if (MyBackendType == B_BACKEND)
			see_to_worker();
	}
	return arena;
}

RlArena *
rl_get_arena(void)
{
	if (likely(arena != NULL) || rl_find_arena() != NULL)
		return arena;

	set_up_arena();
	if (arena == NULL)
		return rl_find_arena();
	see_to_worker();
	return arena;
}
