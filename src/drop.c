/*-------------------------------------------------------------------------
 *
 * drop.c
 *	  Freeing the memory of a database from which the extension is dropped.
 *
 * A session that has the library loaded, with shared_preload_libraries each of
 * them, sees the extension being dropped, and forgets the counters when that
 * is committed.  What a session without it leaves behind expires, and is
 * forgotten at the latest when the extension is created again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "drop.h"

#include "memory.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"

static object_access_hook_type prev_object_access_hook = NULL;

/* Was the extension dropped in this transaction, at this level or below? */
static int	dropped_level = 0;

static void
watch_object(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
			 void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class_id, object_id, sub_id, arg);

	/* at commit it would be too late for what can fail, such as attaching */
	if (access == OAT_DROP && class_id == ExtensionRelationId &&
		object_id == get_extension_oid("rate_limit", true) &&
		rl_memory_remembers() && dropped_level == 0)
		dropped_level = GetCurrentTransactionNestLevel();
}

static void
end_subtransaction(SubXactEvent event, SubTransactionId id,
				   SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	(void) id;
	(void) parent;
	(void) arg;
	if (dropped_level < level)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		dropped_level = 0;
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		dropped_level = level - 1;
}

static void
end_transaction(XactEvent event, void *arg)
{
	(void) arg;
	if (event == XACT_EVENT_COMMIT && dropped_level > 0)
		rl_memory_forget_database(MyDatabaseId);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
		dropped_level = 0;
}

/* Will the counters of this database be forgotten when this is committed? */
bool
rl_will_forget(void)
{
	return dropped_level > 0;
}

void
rl_watch_drop(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = watch_object;
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_subtransaction, NULL);
}
