/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings rate_limit.*
 *
 * None of them can be changed by an ordinary user, since each could loosen a
 * limit or take memory from others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_SETTINGS_H
#define RL_SETTINGS_H

typedef enum RlStore
{
	RL_STORE_MEMORY,			/* shared memory, apart from transactions */
	RL_STORE_TABLE				/* table rate_limit_state */
} RlStore;

typedef enum RlMode
{
	RL_MODE_ENFORCE,
	RL_MODE_SHADOW,				/* count what would be refused, but admit it */
	RL_MODE_OFF					/* admit everything, record nothing */
} RlMode;

extern int	rl_memory_kb;		/* rate_limit.memory */
extern int	rl_exact_hits;		/* rate_limit.exact_hits */
extern int	rl_default_store;	/* rate_limit.store, an RlStore */
extern int	rl_save_interval;	/* rate_limit.save_interval, in seconds */
extern int	rl_mode;			/* rate_limit.mode, an RlMode */

extern void rl_define_settings(void);

#endif							/* RL_SETTINGS_H */
