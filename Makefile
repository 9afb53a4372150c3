# rate_limit: exact, fast rate limiting with one SQL call
#
#   make && make install && make installcheck    as for every extension
#   make demo        a minute of what it does; needs nothing but Debian
#   make test        every test suite; needs nothing but Debian
#   make checked     the suites on a server with assertions, with valgrind, with sanitizers
#   make fuzz        a million random calls there, or RATE_LIMIT_FUZZ_CALLS
#   make coverage    which lines of src the suites execute
#   make churn       measures connections that come and go
#   make fuzz-reader the reader of saved counters is given any bytes, by libFuzzer
#   make sql-edition the same functions without C, as scripts in dist
#   make bench       speed against what it replaces, with charts, in some 36 minutes
#
# Variables: PG_CONFIG, DESTDIR, VPATH as usual; WERROR=1 turns warnings into errors,
# LTO= leaves the optimization across files out.

EXTENSION = rate_limit
MODULE_big = rate_limit
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/*.c)))
DATA = $(notdir $(wildcard $(srcdir)/rate_limit--*.sql))

# PostgreSQL's headers are system headers: -Wextra is for this code, not for theirs.
PG_CPPFLAGS = -isystem $(includedir_server)
PG_CFLAGS = -Wall -Wextra
# The compiler may inline what is exported too, and with gcc across files: a call takes
# a tenth less.
LTO = $(if $(findstring Free Software Foundation,$(shell $(CC) --version)),-flto=auto)
PG_CFLAGS += -fno-semantic-interposition $(LTO)
# Flags of the gcc that built PostgreSQL, which clang does not know, are no fault here.
PG_CFLAGS += $(if $(findstring clang,$(CC)),-Wno-unknown-warning-option -Wno-ignored-optimization-argument)
ifdef WERROR
PG_CFLAGS += -Werror
endif

REGRESS = $(basename $(notdir $(sort $(wildcard $(srcdir)/sql/*.sql))))
ISOLATION = $(basename $(notdir $(sort $(wildcard $(srcdir)/test/isolation/specs/*.spec))))
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl

here := $(dir $(firstword $(MAKEFILE_LIST)))
own_goals = demo test checked fuzz coverage churn bench sql-edition indent check-indent check-version figures

PG_CONFIG = pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifdef PGXS
include $(PGXS)
else ifneq (,$(filter-out $(own_goals),$(or $(MAKECMDGOALS),all)))
$(error $(PG_CONFIG) finds no PostgreSQL to build for: set PG_CONFIG, or install the server's development package (Debian: postgresql-server-dev-NN))
endif

# Objects go to src/ of the build directory, which a VPATH build has to make.
$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h) | $(CURDIR)/src
$(CURDIR)/src:
	mkdir -p $@

.PHONY: $(own_goals) unit fuzz-reader

demo:
	@$(here)test/demo

test:
	@$(here)test/all

checked:
	@$(here)test/checked

fuzz:
	@$(here)test/checked fuzz

coverage:
	@$(here)test/coverage

bench:
	@$(here)test/bench/run

churn:
	@$(here)test/churn

sql-edition:
	$(here)sql_edition/build dist

unit:
	$(MAKE) -C $(here)test/unit check PG_CONFIG='$(PG_CONFIG)'

fuzz-reader:
	$(MAKE) -C $(here)test/fuzz run PG_CONFIG='$(PG_CONFIG)'

figures:
	$(here)doc/figures

indent:
	@$(here)test/indent

check-indent:
	@$(here)test/indent --check

# The control file is the one place where the version stands.
check-version: version = $(shell sed -n "s/^default_version = '\(.*\)'$$/\1/p" $(here)rate_limit.control)
check-version:
	@test -n '$(version)' || { echo 'rate_limit.control: no default_version'; exit 1; }
	@test -f $(here)rate_limit--$(version).sql || { echo 'rate_limit--$(version).sql is missing'; exit 1; }
	@grep -q '^## $(version)\( \|$$\)' $(here)CHANGELOG.md || { echo 'CHANGELOG.md has no heading "## $(version)"'; exit 1; }
	@echo 'version $(version)'
