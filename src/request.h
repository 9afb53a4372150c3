/*-------------------------------------------------------------------------
 *
 * request.h
 *	  What a caller asks for, taken from the arguments of a function.
 *
 * Every bad argument is refused here: an error, never an admission.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_REQUEST_H
#define RL_REQUEST_H

#include "algorithm.h"

#include "settings.h"

#include "fmgr.h"

/* The bytes of a text, not ended by a zero byte. */
typedef struct RlBytes
{
	const char *data;
	int			length;
} RlBytes;

typedef struct RlRequest
{
	RlBytes		key;
	RlBytes		policy;			/* and ... */
	RlBytes		rule;			/* ... whose counter it is; empty if ad hoc */
	RlLimit		limit;
	RlZone		zone;			/* what limit.window.zone points to */
	const char *zone_name;		/* of a calendar window, else NULL */
	int64		cost;			/* may be negative in an adjustment */
	RlStore		store;
	Oid			schema;			/* of the extension, for RL_STORE_TABLE */
	bool		has_time;		/* decide as if it were "at" */
	RlTime		at;
} RlRequest;

/* number of the first argument in the functions that begin with "at" */
#define RL_ARG_FIRST			0
#define RL_ARG_FIRST_AT			1

extern void rl_read_request(FunctionCallInfo fcinfo, int first,
							bool adjustment, RlRequest *request);
extern int	rl_read_requests(FunctionCallInfo fcinfo, RlRequest **requests);
extern bool rl_same_counter(const RlRequest *a, const RlRequest *b);
extern RlBytes rl_read_key(FunctionCallInfo fcinfo, int argno);
extern RlBytes rl_read_prefix(FunctionCallInfo fcinfo, int argno);
extern RlBytes rl_read_reason(FunctionCallInfo fcinfo, int argno);
extern RlTime rl_read_block_end(FunctionCallInfo fcinfo, int argno,
								RlTime now);

extern const char *rl_algorithm_name(RlAlgorithm algorithm);
extern RlAlgorithm rl_algorithm_of_text(const text *name);
extern Oid	rl_extension_schema(FunctionCallInfo fcinfo);
extern bool rl_set_zone(RlZone *zone, const char *name,
						const char **canonical_name);

#endif							/* RL_REQUEST_H */
