/*-------------------------------------------------------------------------
 *
 * call.h
 *	  One request on its way through the memory store.
 *
 * A decision copies the state of the counter out of the arena, works on the
 * copy, and writes it back if something was recorded.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_CALL_H
#define RL_CALL_H

#include "arena.h"
#include "store.h"

typedef struct RlCall
{
	const RlRequest *request;
	RlVerdict  *verdict;
	RlIdentity	identity;
	int			partition_number;
	RlPartition *partition;
	RlState    *state;			/* calls on the same counter share it */
	RlHit	   *hits;			/* room for state->hits */

	/* valid while the partition is locked */
	RlEntry    *counter;		/* NULL if there is none */
	RlEntry    *block;			/* NULL if the key is not blocked */
	bool		expired;		/* the counter means nothing any more */
	bool		stepped_back;	/* the copy was re-timed, it must be written */
	int			nwords;			/* of the state as encoded last */
} RlCall;

/* before the lock */
extern void rl_prepare_call(RlCall *call, RlArena *arena,
							const RlRequest *request, RlVerdict *verdict,
							RlState *state, RlHit *hits);

/* under the lock of the partition */
extern RlTime rl_instant_of(const RlRequest *request);
extern void rl_find_entries(RlCall *call, RlTime now);
extern void rl_load_state(RlCall *call, RlTime now);
extern void rl_judge(RlOperation operation, RlCall *call, RlTime now);
extern void rl_adjust(RlCall *call, RlTime now);
extern void rl_report_call(RlCall *call, RlTime now);
extern void rl_note_refusal(RlCall *call);
extern int	rl_encode_call(RlCall *call);
extern void rl_write_back(RlCall *call);

#endif							/* RL_CALL_H */
