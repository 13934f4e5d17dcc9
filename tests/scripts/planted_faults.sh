#!/usr/bin/env bash
# planted_faults.sh [NUMBER...]: do the tests notice faults? Each fault of planted_faults.txt is planted, one at a time, into a copy of
# the tree at HEAD (build/planted), and the tests that should notice are built and run. Prints a line for each fault, then "N of M planted
# faults noticed". Numbers choose some of the faults. Takes about half a minute a fault; no part of the normal run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
chosen=" $* "
top=$PWD scratch=$PWD/build/planted
mkdir -p "$scratch"
git archive HEAD | tar -x -m -C "$scratch"
cd "$scratch"
# Debian's LibTorch and the peers have nothing to do with what is planted.
cmake --preset release -DTRACEWRIGHT_TORCH=OFF -DTRACEWRIGHT_BENCH=OFF -Wno-dev >/dev/null
log=$scratch/log

build_and_run() {  # says which test notices first
  local test noticed=()
  cmake --build build/release -j "${JOBS-2}" --target "$2" >"$log" 2>&1 || { echo "does not build, see $log"; return 2; }
  timeout 300 "build/release/tests/$2" --gtest_brief=1 --gtest_fail_fast >"$log" 2>&1 && return 1
  mapfile -t noticed < <(sed -n 's/^\[  FAILED  \] \([A-Za-z]*\.[A-Za-z]*\).*/\1/p' "$log" | sort -u)
  echo "${noticed[*]:-$2 died or hung}"
}

number=0 noticed=0 tried=0
plant() {  # what, file, old, new, test
  number=$((number + 1))
  [[ $chosen == "  " || $chosen == *" $number "* ]] || return 0
  local content result status=0
  content=$(cat "$2"; echo .)
  content=${content%.}
  local rest=${content#*"$3"}
  [[ $rest != "$content" && $rest == "${rest#*"$3"}" ]] || { echo "$number. $1: the text is not in $2 exactly once" >&2; exit 1; }
  printf '%s' "${content/"$3"/"$4"}" >"$2"
  tried=$((tried + 1))
  result=$(build_and_run "$1" "$5") || status=$?
  printf '%s' "$content" >"$2"
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
done <"$top/tests/scripts/planted_faults.txt"
echo "$noticed of $tried planted faults noticed"
