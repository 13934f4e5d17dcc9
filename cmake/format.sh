#!/usr/bin/env bash
# Formats every C++ file of the project with clang-format 14 or newer. --check only lists the files that would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=
for candidate in clang-format clang-format-{19,18,17,16,15,14}; do
  command -v "$candidate" >/dev/null || continue
  version=$("$candidate" --version | sed -E 's/.*version ([0-9]+).*/\1/')
  ((version >= 14)) && formatter=$candidate && break
done
[[ -n $formatter ]] || { echo "no clang-format of version 14 or newer; try: apt-get install clang-format" >&2; exit 1; }

if [[ ${1-} == --check ]]; then
  git ls-files -z '*.h' '*.cc' | xargs -0 "$formatter" --dry-run --Werror
else
  git ls-files -z '*.h' '*.cc' | xargs -0 "$formatter" -i
fi
