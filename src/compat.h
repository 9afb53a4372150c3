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

#endif							/* RL_COMPAT_H */
