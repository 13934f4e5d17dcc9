#!/usr/bin/env bash
# planted_faults.sh [--faults FILE] [NUMBER...]: do the tests notice faults? Each fault of FILE (planted_faults.txt; there are
# others beside it) is planted, one at a time, into a copy of the tree at HEAD (build/planted), and the tests that should notice are built and run.
# Prints a line for each fault, then "N of M planted faults noticed". Numbers choose some of the faults. Takes about half a minute a
# fault; no part of the normal run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
top=$PWD scratch=$PWD/build/planted
faults=$top/tests/scripts/planted_faults.txt
if [[ ${1-} == --faults ]]; then
  faults=$(realpath "$2")
  shift 2
fi
chosen=" $* "
mkdir -p "$scratch"
find "$scratch" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +  # files that are there no longer
git archive HEAD | tar -x -m -C "$scratch"
cd "$scratch"
# The peers have nothing to do with what is planted.
cmake --preset release -DTRACEWRIGHT_TORCH=ON -DTRACEWRIGHT_BENCH=OFF -Wno-dev >/dev/null
# Tests open it at run time and do not depend on it.
cmake --build build/release -j "${JOBS-2}" --target tracewright_torch >/dev/null 2>&1 || echo "no LibTorch: what is planted for the network is not noticed"
log=$scratch/log

build_and_run() {  # TEST...: says which test notices first; status 1 if none does
  local test noticed=()
  cmake --build build/release -j "${JOBS-2}" --target "$@" >"$log" 2>&1 || { echo "does not build, see $log"; return 2; }
  for test in "$@"; do
    timeout 300 "build/release/tests/$test" --gtest_brief=1 --gtest_fail_fast >"$log" 2>&1 && continue
    mapfile -t noticed < <(sed -n 's/^\[  FAILED  \] \([A-Za-z\/]*\.[A-Za-z]*\).*/\1/p' "$log" | sort -u)
    echo "${noticed[*]:-$test died or hung}"
    return
  done
  return 1
}

number=0 noticed=0 tried=0
plant() {  # what, file, old, new, tests
  number=$((number + 1))
  [[ $chosen == "  " || $chosen == *" $number "* ]] || return 0
  local content result status=0 tests
  read -ra tests <<<"$5"
  content=$(cat "$2"; echo .)
  content=${content%.}
  local rest=${content#*"$3"}
  [[ $rest != "$content" && $rest == "${rest#*"$3"}" ]] || { echo "$number. $1: the text is not in $2 exactly once" >&2; exit 1; }
  printf '%s' "${content/"$3"/"$4"}" >"$2"
  result=$(build_and_run "${tests[@]}") || status=$?
  printf '%s' "$content" >"$2"
  ((status == 2)) || tried=$((tried + 1))
  ((status == 0)) && noticed=$((noticed + 1))
  printf '%d. %s: %s\n' "$number" "$1" "${result:-NOT NOTICED by $5}"
}

block=()
while IFS= read -r line || [[ -n $line ]]; do
  [[ $line == \#* ]] && continue
  if [[ -n $line ]]; then block+=("$line"); fi
  ((${#block[@]} == 5)) || continue
  plant "${block[@]}"
  block=()
done <"$faults"
echo "$noticed of $tried planted faults noticed"
