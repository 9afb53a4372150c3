/*-------------------------------------------------------------------------
 *
 * address.c
 *	  Keys that are network addresses.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "address.h"

#include <sys/socket.h>

#include "utils/builtins.h"

/* the longest address with the longest prefix length, in characters */
#define MAX_ADDRESS_LENGTH		49

#define MAPPED_BITS				96

/* the first bytes of an IPv4 address that is mapped into IPv6 */
static const unsigned char mapped[MAPPED_BITS / 8] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF
};

static int
count_char(const char *string, char c)
{
	int			n = 0;

	for (; *string != '\0'; string++)
		n += *string == c;
	return n;
}

/* Abbreviations, such as "10", are no addresses here. */
static bool
looks_like_address(const char *name)
{
	if (strspn(name, "0123456789abcdefABCDEF:./") != strlen(name))
		return false;
	return count_char(name, ':') >= 2 ||
		(count_char(name, '.') == 3 && name[0] != '.');
}

/* Take an IPv4 address that is mapped into IPv6 for what it is. */
static void
unmap(inet *address)
{
	unsigned char *bytes = ip_addr(address);

	if (ip_family(address) != PGSQL_AF_INET6 ||
		ip_bits(address) < MAPPED_BITS ||
		memcmp(bytes, mapped, sizeof(mapped)) != 0)
		return;
	memmove(bytes, bytes + sizeof(mapped), 4);
	ip_family(address) = PGSQL_AF_INET;
	ip_bits(address) -= MAPPED_BITS;
}

/*
 * Return the address or network that a key is, with or without "ip:" before
 * it, or NULL if it is neither.
 */
inet *
rl_address_of_key(RlBytes key)
{
	char		name[MAX_ADDRESS_LENGTH + 1];
	inet	   *address;
	int			bits;

	if (key.length > 3 && memcmp(key.data, "ip:", 3) == 0)
	{
		key.data += 3;
		key.length -= 3;
	}
	if (key.length > MAX_ADDRESS_LENGTH)
		return NULL;
	memcpy(name, key.data, key.length);
	name[key.length] = '\0';
	if (!looks_like_address(name))
		return NULL;

	address = palloc0(sizeof(inet));
	ip_family(address) = strchr(name, ':') != NULL ? PGSQL_AF_INET6 :
		PGSQL_AF_INET;
	bits = pg_inet_net_pton(ip_family(address), name, ip_addr(address), -1);
	if (bits < 0 || bits > ip_maxbits(address))
		return NULL;
	ip_bits(address) = bits;
	unmap(address);
	SET_INET_VARSIZE(address);
	return address;
}
