# shellcheck shell=bash
#
# What test/demo and test/all have in common: packages, a private copy of the
# tree, the build, and throw-away servers.  To be sourced by bash.
#
#   need PACKAGE TEST…        the package, by Debian's name, is wanted unless TEST succeeds
#   wish PACKAGE TEST…        the same, but what has no such package goes on without it
#   need_postgres             a server with its development files is wanted
#   need_cache                a folder that stays for the next run is wanted: RL_CACHE
#   enter "$@"                installs what is missing, copies the tree and starts
#                             the calling script again in the copy, as an ordinary
#                             user; only there does enter return
#   build                     builds the extension and installs it for start_server
#   init_server NAME [LINE…]  makes a server with these lines of configuration
#   start_server NAME [LINE…] makes and starts one
#   stop_server NAME
#
# After enter: RL_WORK is the private folder, the current directory the copy of
# the tree, PG_CONFIG and bindir say which PostgreSQL, and the PG… variables lead
# every client to the server that was started here.  Nothing outside RL_WORK is
# changed but packages and RL_CACHE; RL_WORK goes away at exit, and stays for a
# look after a failure.

unset MAKEFLAGS MAKELEVEL MFLAGS CDPATH
export LC_ALL=C.UTF-8

missing=() wished=()

# shellcheck disable=SC2034
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' dim=$'\e[2m' plain=$'\e[0m'
else
  bold='' green='' red='' dim='' plain=''
fi

step() {
  printf '%s==>%s %s\n' "$bold" "$plain" "$*"
}

die() {
  printf '%s%s: %s%s\n' "$red" "${0##*/}" "$*" "$plain" >&2
  exit 1
}

# Runs a command with its output in a log file, of which the end is shown if it fails.
logged() {
  local log=$1
  shift
  "$@" >>"$log" 2>&1 </dev/null || {
    tail -n 40 "$log" >&2
    printf '%sfailed: %s (whole log: %s)%s\n' "$red" "$*" "$log" "$plain" >&2
    return 1
  }
}

#
# Packages
#

need() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

wish() {
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || wished+=("$package")
}

need_postgres() {
  want_postgres=1
}

need_cache() {
  want_cache=1
}

# Is this the pg_config of a PostgreSQL >= 15 with a server and its headers?
is_complete() {
  local bin version
  version=$("$1" --version 2>/dev/null) || return 1
  version=${version#PostgreSQL }
  bin=$("$1" --bindir)
  [ "0${version%%[!0-9]*}" -ge 15 ] && [ -f "$("$1" --pgxs)" ] &&
    [ -f "$("$1" --includedir-server)/postgres.h" ] &&
    [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && [ -x "$bin/pgbench" ]
}

find_postgres() {
  local candidate
  if [ -n "${PG_CONFIG:-}" ]; then
    PG_CONFIG=$(command -v "$PG_CONFIG") || die "PG_CONFIG is no command"
    is_complete "$PG_CONFIG" ||
      die "PG_CONFIG is not that of a PostgreSQL 15 or later with server, pgbench and server headers"
    return
  fi
  while read -r candidate; do
    if is_complete "$candidate"; then
      PG_CONFIG=$candidate
      return
    fi
  done < <(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV; command -v pg_config)
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
}

apt_get() {
  logged "$RL_WORK/apt.log" as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}

cluster_conf=/etc/postgresql-common/createcluster.conf

# Debian's server packages start a server of their own when installed: not wanted here.
hold_clusters() {
  as_root cp -p "$cluster_conf" "$RL_WORK/createcluster.conf"
  echo 'create_main_cluster = false' | as_root tee -a "$cluster_conf" >/dev/null
}

release_clusters() {
  if [ -f "$RL_WORK/createcluster.conf" ]; then
    as_root cp -p "$RL_WORK/createcluster.conf" "$cluster_conf"
    as_root rm "$RL_WORK/createcluster.conf"
  fi
}

policy=/usr/sbin/policy-rc.d

# The same for all other services, by the means that Debian has for it.
hold_services() {
  [ ! -e "$policy" ] || return 0
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
  held_services=1
}

release_services() {
  [ -z "${held_services:-}" ] || as_root rm "$policy"
  held_services=
}

# Installs packages; those that this release of the distribution lacks are left out.
apt_install() {
  local package known=()
  for package; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      known+=("$package")
    else
      echo "    not in this distribution: $package"
    fi
  done
  [ ${#known[@]} = 0 ] || { hold_services && apt_get install --no-install-recommends "${known[@]}"; }
}

install_packages() {
  local major server=

  if [ -n "${want_postgres:-}" ] && ! find_postgres; then
    server=1
  fi
  [ -n "$server" ] || [ ${#missing[@]} -gt 0 ] || return 0

  if can_install; then
    step "Reading the package lists"
    apt_get update
    if [ -n "$server" ]; then
      major=$(apt-cache depends postgresql | sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p')
      [ "0$major" -ge 15 ] || die "PostgreSQL 15 or later is needed; this distribution has ${major:-none}"
    fi
  else
    [ -z "$server" ] || missing+=(postgresql-NN postgresql-server-dev-NN "(NN: 15 or later)")
    die "please install these packages (Debian's names) and start again: ${missing[*]}"
  fi

  if [ -n "$server" ]; then
    missing+=("postgresql-$major" "postgresql-server-dev-$major")
    step "Installing packages: postgresql-common"
    apt_install postgresql-common
    hold_clusters
  fi
  step "Installing packages: ${missing[*]} (may take some minutes)"
  apt_install "${missing[@]}"
  release_clusters
  release_services
  [ -z "${want_postgres:-}" ] || find_postgres || die "found no complete PostgreSQL after the installation"
}

install_wished() {
  [ ${#wished[@]} -gt 0 ] && can_install || return 0
  step "Installing packages: ${wished[*]}"
  { [ -f "$RL_WORK/apt.log" ] || apt_get update; } && apt_install "${wished[@]}" ||
    echo "    going on without them"
  release_services
}

#
# The private folder
#

enter() {
  local script tree

  if [ -n "${RL_INSIDE:-}" ]; then
    trap leave EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    unset "${!PG@}"
    cd "$RL_WORK/tree" || exit
    export TMPDIR=$RL_WORK/tmp
    use_postgres "$RL_PG_CONFIG"
    # never to any other server
    export PGHOST=$RL_WORK PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
    return
  fi

  script=${BASH_SOURCE[1]}
  tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  script=$(cd "$(dirname "$script")" && pwd)/${script##*/}
  RL_WORK=$(mktemp -d "${TMPDIR:-/tmp}/rate_limit.XXXXXX")
  trap leave_early EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  install_packages
  install_wished

  step "Copying the tree to $RL_WORK"
  mkdir "$RL_WORK/tree" "$RL_WORK/tmp"
  tar -C "$tree" --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
    --exclude=./test/unit/bin --exclude=./test/fuzz/bin --exclude=node_modules --exclude=./tmp_check -cf - . |
    tar -C "$RL_WORK/tree" -xf -

  [ -z "${want_cache:-}" ] || make_cache
  export RL_INSIDE=1 RL_WORK RL_PG_CONFIG=${PG_CONFIG:-}
  script=$RL_WORK/tree/${script#"$tree"/}
  if [ "$(id -u)" != 0 ]; then
    exec bash "$script" "$@"
  fi
  id postgres >/dev/null 2>&1 || die "there is no user postgres: start this as an ordinary user"
  chown -R postgres: "$RL_WORK"
  [ -z "${want_cache:-}" ] || chown postgres: "$RL_CACHE"
  as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups
    env HOME="$RL_WORK/tmp" USER=postgres LOGNAME=postgres)
  "${as_postgres[@]}" test -r "$script" ||
    die "the user postgres cannot reach $RL_WORK: set TMPDIR to a folder that everybody can reach"
  exec "${as_postgres[@]}" bash "$script" "$@"
}

# From here on the programs are those of another PostgreSQL.
use_postgres() {
  export PG_CONFIG=$1
  bindir=$("$PG_CONFIG" --bindir)
  PATH=$bindir:$PATH
}

# Outside the tree, and of the user who runs the rest.
make_cache() {
  if [ -z "${RL_CACHE:-}" ]; then
    if [ "$(id -u)" = 0 ]; then
      RL_CACHE=/var/cache/rate_limit
    else
      RL_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/rate_limit
    fi
  fi
  export RL_CACHE
  mkdir -p "$RL_CACHE"
}

tell_where() {
  printf '%sLogs and server files are kept in %s%s\n' "$red" "$RL_WORK" "$plain"
  told=1
}

leave_early() {
  local status=$?
  release_clusters
  release_services
  if [ $status != 1 ] || [ ! -f "$RL_WORK/apt.log" ]; then rm -rf "$RL_WORK"; fi
}

# With the exit status, if that has been lost.
leave() {
  local status=${1:-$?} file

  trap '' HUP INT TERM
  trap - EXIT
  cd /
  while read -r file; do
    "$bindir/pg_ctl" -D "${file%/*}" -m immediate stop >/dev/null 2>&1 || true
  done < <(find "$RL_WORK" -name postmaster.pid)
  case $status in
    0 | 77 | 129 | 130 | 143) rm -rf "$RL_WORK" ;;
    *) [ -n "${told:-}" ] || tell_where >&2 ;;
  esac
  exit "$status"
}

#
# Build and servers
#

build() {
  logged "$RL_WORK/build.log" make -j"$(nproc)" "$@" &&
    logged "$RL_WORK/build.log" make install DESTDIR="$RL_WORK/inst" "$@" &&
    write_extension_conf
}

# Lets a server find the extension in RL_WORK instead of the system's folders.
write_extension_conf() {
  local inst=$RL_WORK/inst settings

  settings=$("$bindir/postgres" --describe-config | cut -f1)
  {
    if grep -qx extension_destdir <<<"$settings"; then
      echo "extension_destdir = '$inst'"
    elif grep -qx extension_control_path <<<"$settings"; then
      echo "extension_control_path = '$inst$("$PG_CONFIG" --sharedir):\$system'"
    else
      die "this PostgreSQL has neither extension_destdir (Debian) nor extension_control_path (18)"
    fi
    echo "dynamic_library_path = '$inst$("$PG_CONFIG" --pkglibdir):\$libdir'"
  } >"$RL_WORK/extension.conf"
}

init_server() {
  local name=$1
  local data=$RL_WORK/$name
  shift

  logged "$RL_WORK/$name.log" "$bindir/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C --no-sync || return
  {
    echo "listen_addresses = ''"
    echo "unix_socket_directories = '$RL_WORK'"
    echo "include '$RL_WORK/extension.conf'"
    echo "max_connections = 250"
    echo "fsync = off"
    printf '%s\n' "$@"
  } >>"$data/postgresql.conf"
}

start_server() {
  init_server "$@" &&
    logged "$RL_WORK/$1.log" "$bindir/pg_ctl" -D "$RL_WORK/$1" -l "$RL_WORK/$1.log" -w start
}

stop_server() {
  logged "$RL_WORK/$1.log" "$bindir/pg_ctl" -D "$RL_WORK/$1" -m fast -w stop
}
