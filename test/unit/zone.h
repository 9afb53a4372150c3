/*-------------------------------------------------------------------------
 *
 * zone.h
 *	  Time zones for the calendar, as the C library knows them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZONE_H
#define ZONE_H

#include "unit.h"

#include "calendar.h"

/*
 * Make a zone the one that zone_current answers for.  An unknown name is a
 * difference of the running case.
 */
extern void zone_set(const char *name);

/* The zone that was set last. */
extern const RlZone zone_current;

#endif							/* ZONE_H */
