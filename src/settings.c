/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings rate_limit.*
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"

#include "arena.h"

#include "miscadmin.h"
#include "utils/guc.h"

/* rate_limit.save_interval, in seconds */
#define RL_DEFAULT_SAVE_INTERVAL	10
#define RL_MAX_SAVE_INTERVAL		3600

int			rl_memory_kb = RL_DEFAULT_MEMORY_KB;
int			rl_exact_hits = RL_DEFAULT_EXACT_HITS;
int			rl_default_store = RL_STORE_MEMORY;
int			rl_save_interval = RL_DEFAULT_SAVE_INTERVAL;
int			rl_mode = RL_MODE_ENFORCE;

static const struct config_enum_entry store_options[] = {
	{"memory", RL_STORE_MEMORY, false},
	{"table", RL_STORE_TABLE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry mode_options[] = {
	{"enforce", RL_MODE_ENFORCE, false},
	{"shadow", RL_MODE_SHADOW, false},
	{"off", RL_MODE_OFF, false},
	{NULL, 0, false}
};

void
rl_define_settings(void)
{
	/* without preload the server has started: no postmaster settings then */
	GucContext	memory_context = process_shared_preload_libraries_in_progress ?
	PGC_POSTMASTER : PGC_SIGHUP;

	DefineCustomIntVariable("rate_limit.memory",
							"Shared memory for the counters of the memory store.",
							"It is read once, when the memory is set up: at server start with shared_preload_libraries, else by the first call.",
							&rl_memory_kb,
							RL_DEFAULT_MEMORY_KB,
							RL_MIN_MEMORY_KB, RL_MAX_MEMORY_KB,
							memory_context, GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomIntVariable("rate_limit.exact_hits",
							"Largest limit for which a sliding window keeps the exact time of every hit.",
							"Above it, times are rounded up to a multiple of the window divided by this number.",
							&rl_exact_hits,
							RL_DEFAULT_EXACT_HITS,
							RL_MIN_EXACT_HITS, RL_MAX_EXACT_HITS,
							PGC_SUSET, 0,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("rate_limit.store",
							 "Where counters are kept if a call does not say so.",
							 "memory is fast and apart from transactions, table is durable and part of them.",
							 &rl_default_store,
							 RL_STORE_MEMORY, store_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("rate_limit.save_interval",
							"How often the counters in memory are saved.",
							"0 saves them only when the server stops.",
							&rl_save_interval,
							RL_DEFAULT_SAVE_INTERVAL,
							0, RL_MAX_SAVE_INTERVAL,
							PGC_SIGHUP, GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("rate_limit.mode",
							 "Whether limits are enforced.",
							 "enforce refuses, shadow counts what it would refuse but admits it, off admits everything and records nothing.",
							 &rl_mode,
							 RL_MODE_ENFORCE, mode_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	MarkGUCPrefixReserved("rate_limit");
}
