/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between the major versions of PostgreSQL.
 *
 * The code is written for the newest; older ones get the difference here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RL_COMPAT_H
#define RL_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "rate_limit needs PostgreSQL 15 or later"
#endif

/* before PostgreSQL 18, an attribute after the declaration */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* before PostgreSQL 16, either all indexes have to be updated or none */
#if PG_VERSION_NUM >= 160000
#define rl_insert_index_entries(target, slot, estate, which) \
	ExecInsertIndexTuples(target, slot, estate, true, false, NULL, NIL, \
						  (which) == TU_Summarizing)
#else
#define TU_UpdateIndexes bool
#define TU_None false
#define rl_insert_index_entries(target, slot, estate, which) \
	((void) (which), \
	 ExecInsertIndexTuples(target, slot, estate, true, false, NULL, NIL))
#endif

#if PG_VERSION_NUM >= 180000
#define rl_primary_key(relation) RelationGetPrimaryKeyIndex(relation, false)
#else
#define rl_primary_key(relation) RelationGetPrimaryKeyIndex(relation)
#endif

#endif							/* RL_COMPAT_H */
