#!/bin/bash
# Builds the fuzzers and runs each for SECONDS (600 unless told); exits 1 at the first finding, whose input is in build/fuzz/findings.
#   tests/fuzz/run_fuzzers.sh [SECONDS] [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
shift || true
cmake --preset fuzz > /dev/null
cmake --build build/fuzz --target fuzz_parsers
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(build/fuzz/fuzz_parsers --list)
mkdir -p build/fuzz/findings
for name in "${names[@]}"; do
  export FUZZ_TARGET=$name
  corpus=build/fuzz/corpus/$name log=build/fuzz/$name.log
  build/fuzz/fuzz_parsers --write-seeds "$corpus"
  echo "== $name: $seconds s"
  # Its exit code says whether there was a finding.
  code=0
  build/fuzz/fuzz_parsers -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/findings/"$name"- "$corpus" > "$log" 2>&1 || code=$?
  grep number_of_executed "$log" || true
  [ $code -eq 0 ] || { tail -40 "$log"; echo "$name: a finding (exit code $code)"; exit 1; }
done
echo "no finding"
