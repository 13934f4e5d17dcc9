#!/bin/bash
# Builds the fuzzers and runs each for SECONDS (600 unless told); exits 1 at the first finding, whose input is in build/fuzz/findings.
#   tests/fuzz/run_fuzzers.sh [SECONDS] [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
shift || true
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(workload program schedule trace_file rules task_list import)
cmake --preset fuzz > /dev/null
cmake --build build/fuzz --target "${names[@]/#/fuzz_}"
mkdir -p build/fuzz/findings
for name in "${names[@]}"; do
  corpus=build/fuzz/corpus/$name
  build/fuzz/fuzz_"$name" --write-seeds "$corpus"
  echo "== $name: $seconds s"
  build/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=20000 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/findings/"$name"- "$corpus" 2>&1 | grep -E "SUMMARY|ERROR|stat::number_of_executed|BINGO|CHECK" || true
  ls build/fuzz/findings/"$name"-* > /dev/null 2>&1 && { echo "$name: a finding"; exit 1; }
done
echo "no finding"
