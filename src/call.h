/*-------------------------------------------------------------------------
 *
 * call.h
 *	  One request on its way through the memory store.
 *
 * A decision copies the state of the counter out of the arena, works on the
 * copy, and writes it back if something was recorded, or if the clock was set
 * back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_CALL_H
#define RL_CALL_H

#include "arena.h"
#include "decision.h"

typedef struct RlCall
{
	RlDecision	decision;
	RlIdentity	identity;
	RlPartition *partition;
	RlHit	   *hits;			/* room for those of the state */

	/* valid while the partition is locked */
	RlEntry    *counter;		/* NULL if there is none */
	RlEntry    *block;			/* NULL if the key is not blocked */
} RlCall;

/* before the lock */
extern void rl_prepare_call(RlCall *call, RlArena *arena,
							const RlRequest *request, RlVerdict *verdict);

/* under the lock of the partition */
extern void rl_find_entries(RlCall *call);
extern void rl_load_state(RlCall *call);
extern int	rl_chunks_wanted(const RlCall *call);
extern void rl_refuse_full(RlCall *call, RlTime until);
extern void rl_note_refusal(RlCall *call);
extern void rl_write_back(RlCall *call);

#endif							/* RL_CALL_H */
