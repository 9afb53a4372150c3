# shellcheck shell=bash
#
# A PostgreSQL server with assertions, built from the source package of the server
# that is installed.  To be sourced after lib.sh.
#
#   wish_checked_server   what it is built with is wanted
#   make_checked_server   builds the server, or takes it from the cache, and sets
#                         CHECKED_PREFIX; status 77, after a line that says why,
#                         when the source cannot be had
#
# The package is read with lists of our own: those of the system do not change.  Of its
# patches only the one is applied that lets a server find an extension that is not
# installed; those that fix the folders of Debian's packages would make an installation
# elsewhere write into them.

checked_cflags='-O1 -g -fno-omit-frame-pointer'

wish_checked_server() {
  need_cache
  wish patch command -v patch
  wish bzip2 command -v bzip2
  wish xz-utils command -v xz
  wish bison command -v bison
  wish flex command -v flex
  wish valgrind test -f /usr/include/valgrind/memcheck.h
}

make_checked_server() {
  local wanted major status=0

  has_programs valgrind || return
  wanted="$("$PG_CONFIG" --version) $checked_cflags"
  major=${wanted#PostgreSQL } major=${major%%[!0-9]*}
  CHECKED_PREFIX=$RL_CACHE/postgresql-$major-checked

  mkdir -p "$RL_WORK/checked-server"
  exec 9>"$RL_CACHE/lock"
  flock 9
  if [ "$(cat "$CHECKED_PREFIX/built" 2>/dev/null)" != "$wanted" ]; then
    (
      cd "$RL_WORK/checked-server" &&
        has_programs apt-get patch bzip2 xz bison flex &&
        download_source "$major" &&
        logged unpack.log unpack_source &&
        logged build.log build_server &&
        echo "$wanted" >"$CHECKED_PREFIX/built"
    ) || status=$?
  fi
  exec 9>&-
  return $status
}

cannot_have() {
  echo "skipped: no server with assertions: $*"
  return 77
}

has_programs() {
  local program
  for program; do
    command -v "$program" >/dev/null || cannot_have "$program is missing" || return
  done
}

#
# The source
#

# The lists of the system, for source packages instead.
write_source_lists() {
  local file

  mkdir -p lists/partial archives/partial parts
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -n 's/^deb\([[:blank:]]\)/deb-src\1/p' "$file"
  done >parts/one-line.list
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"parts/${file##*/}"
  done
}

# A command of apt with our lists and folders.
apt_source() {
  "$1" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
    -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD" -o Dir::Cache::archives="$PWD/archives" "${@:2}" </dev/null
}

# The installed version, else the newest of the same major version: a mirror may have
# only the one or the other.
download_source() {
  local package=postgresql-$1 installed known version

  write_source_lists
  apt_source apt-get update >apt.log 2>&1 || true
  installed=$(dpkg-query -W -f '${source:Version}' "$package" 2>/dev/null) || installed=
  known=$(apt_source apt-cache showsrc "$package" 2>>apt.log | sed -n 's/^Version: //p' | sort -rV) || known=
  for version in $installed $known; do
    if apt_source apt-get source --download-only "$package=$version" >>apt.log 2>&1; then
      step "Building $package $version with assertions for $CHECKED_PREFIX (some 5 minutes)"
      return
    fi
  done
  cannot_have "the source package $package cannot be downloaded"
}

unpack_source() {
  mkdir source packaging &&
    tar -xf ./*.orig.tar.* -C source --strip-components=1 &&
    tar -xf ./*.debian.tar.* -C packaging || return
  if [ -f packaging/debian/patches/extension_destdir ]; then
    patch -d source -p1 <packaging/debian/patches/extension_destdir
  fi
}

#
# The build
#

build_server() {
  rm -rf "$CHECKED_PREFIX" &&
    cd source &&
    ./configure --prefix="$CHECKED_PREFIX" --enable-cassert --enable-debug --enable-tap-tests \
      --without-icu --without-readline --without-zlib --with-system-tzdata=/usr/share/zoneinfo \
      CPPFLAGS=-DUSE_VALGRIND CFLAGS="$checked_cflags" &&
    installs_below "$CHECKED_PREFIX" &&
    make -s -j"$(nproc)" &&
    make -s install &&
    cp src/tools/valgrind.supp "$CHECKED_PREFIX"
}

# A build that would write to the folders of another server must not be installed.
installs_below() {
  local folder
  for folder in bindir pkglibdir datadir includedir_server; do
    folder=$(printf 'subdir = .\ntop_builddir = .\ninclude src/Makefile.global\nshow:\n\t@echo $(%s)\n' "$folder" |
      make -s -f - show) || return
    [ "${folder#"$1"/}" != "$folder" ] || {
      echo "would install into $folder"
      return 1
    }
  done
}
