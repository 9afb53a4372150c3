# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154
#
# Suites of tests, and how their results are counted.  To be sourced after lib.sh.
#
#   run_suite TITLE COMMAND…   runs a suite; "suites" says how many there will be
#   summary                    prints the sums and succeeds if nothing has failed
#
# A suite is a command that sets ok, bad and skip, or one of these:
#
#   check NAME COMMAND…        one test, which a command passes or not
#   stream NAME COMMAND…       a command that prints a line for each test
#   built COMMAND…             a suite that needs the extension
#   regress SERVER [LINE…], regress_on SERVER [TEST…], isolation, tap [FILE…]

suite=0 passed=0 failed=0 skipped=0

# run_suite TITLE COMMAND…: the command sets ok, bad and skip
run_suite() {
  local title=$1 started=$SECONDS
  shift
  suite=$((suite + 1)) ok=0 bad=0 skip=0

  step "[$suite/$suites] $title"
  "$@" || [ $bad -gt 0 ] || bad=1
  if [ $((ok + bad + skip)) = 0 ]; then
    echo "    no test was run"
    bad=1
  fi
  passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
  if [ $bad = 0 ]; then printf '    %s' "$green"; else printf '    %sFAILED: ' "$red"; fi
  printf '%d passed, %d failed' $ok $bad
  [ $skip = 0 ] || printf ', %d skipped' $skip
  printf ' in %d s%s\n' $((SECONDS - started)) "$plain"
}

# A suite of one check: a command that fails or not.
check() {
  logged "$RL_WORK/$1.log" "${@:2}" && ok=1
}

# A suite that prints a line for each test, as TAP or as pg_regress before 16 does.
stream() {
  local log=$RL_WORK/$1.log status
  shift

  "$@" 2>&1 </dev/null | tee "$log" |
    { grep --line-buffered -E '^(ok|not ok) [0-9-]|^test .* \.\.\. |test/t/[^ ]* \.\.' || true; } |
    sed -u 's/^/    /' && true
  status=${PIPESTATUS[0]}
  skip=$(grep -cE '^ok [0-9-].* # (skip|SKIP)' "$log" || true)
  ok=$(($(grep -cE '^ok [0-9-]|^test .* \.\.\. ok' "$log" || true) - skip))
  bad=$(grep -cE '^not ok [0-9-]|^test .* \.\.\. FAILED' "$log" || true)
  if [ "$bad" -gt 0 ]; then
    # what a failed test says about itself
    awk '/^not ok/ { line = $0 "\n"; next } /^ok/ { line = ""; told = 0 } line { told = 1 } told { printf "%s%s\n", line, $0; line = "" }' "$log" |
      head -n 200
  elif [ "$status" != 0 ]; then
    tail -n 30 "$log"
  fi
  return "$status"
}

# A suite that needs the extension.
built() {
  if [ -f "$RL_WORK/extension.conf" ]; then
    "$@"
  else
    echo "    not run: the build failed"
    return 1
  fi
}

# regress SERVER [LINE…]: pg_regress with a new server of that configuration
regress() {
  start_server "$@" &&
    regress_on "$1"
}

# regress_on SERVER [TEST…]: pg_regress with a server that runs, all tests or these
regress_on() {
  local output=$RL_WORK/regress-$1
  mkdir "$output"
  stream "regress-$1" make -s installcheck ISOLATION= TAP_TESTS= EXTRA_REGRESS_OPTS="--outputdir=$output" ${2:+REGRESS="${*:2}"} || {
    tail -n 100 "$output/regression.diffs"
    return 1
  }
}

isolation() {
  stream isolation make -s installcheck REGRESS= TAP_TESTS= || {
    tail -n 100 output_iso/regression.diffs
    return 1
  }
}

# tap [FILE…]: all files, or these
tap() {
  local name died
  TEMP_CONFIG=$RL_WORK/extension.conf \
    stream tap make -s installcheck REGRESS= ISOLATION= PROVE_FLAGS="--verbose --timer" ${1:+PROVE_TESTS="$*"} && return

  [ "$bad" = 0 ] || sed -n '/^Test Summary Report/,$p' "$RL_WORK/tap.log"
  # a file that died is a failure too, though none of its tests failed
  died=$(sed -n 's/^test\/t\/\(.*\)\.pl *(Wstat: .* Failed: 0)$/\1/p' "$RL_WORK/tap.log")
  for name in $died; do
    bad=$((bad + 1))
    tail -n 5 "tmp_check/log/regress_log_$name"
  done
  grep -h -A 5 '#   Failed test' tmp_check/log/regress_log_* | head -n 200
  return 1
}

# What all suites together have come to.
summary() {
  echo
  [ $failed = 0 ] || tell_where
  printf '%d passed, %d failed' $passed $failed
  [ $skipped = 0 ] || printf ', %d skipped' $skipped
  echo
  [ $failed = 0 ]
}
