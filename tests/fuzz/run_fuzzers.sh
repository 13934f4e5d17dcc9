#!/bin/bash
# Builds the fuzzers and runs each for SECONDS (600 unless told); exits 1 at the first finding, whose input is in build/fuzz/findings.
#   tests/fuzz/run_fuzzers.sh [SECONDS] [NAME...]
# All but `onnx_models` are libFuzzer's and need the preset `fuzz`, with Clang. That one changes ONNX models by their meaning and is
# built with the preset `release`.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
shift || true
names=("$@")
mkdir -p build/fuzz/findings

run_onnx_models() {
  cmake --preset release > /dev/null
  cmake --build build/release --target fuzz_onnx
  echo "== onnx_models: $seconds s"
  build/release/fuzz_onnx "$seconds" build/fuzz/findings || { echo "onnx_models: a finding"; exit 1; }
}

if [ "${names[*]}" != onnx_models ]; then
  cmake --preset fuzz > /dev/null
  cmake --build build/fuzz --target fuzz_parsers
fi
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(build/fuzz/fuzz_parsers --list; echo onnx_models)
for name in "${names[@]}"; do
  if [ "$name" = onnx_models ]; then run_onnx_models; continue; fi
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
