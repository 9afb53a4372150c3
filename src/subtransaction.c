/*-------------------------------------------------------------------------
 *
 * subtransaction.c
 *	  Work that can be taken back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "subtransaction.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/*
 * Call a function in a subtransaction, which is rolled back if the function
 * returns false or raises an error.  Return what it returns, false after an
 * error, which is handed over then (else NULL).
 */
bool
rl_try(bool (*function) (void *arg), void *arg, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	*error = NULL;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		done = function(arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();

	if (done)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return done;
}
