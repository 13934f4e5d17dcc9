#!/usr/bin/env bash
# Formats every C++ file of the project as .clang-format says. --check only lists the files that would change.
# Versions of clang-format differ in details, so it is the one of cmake/packages.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=clang-format-19
command -v "$formatter" >/dev/null || { echo "there is no $formatter; try: apt-get install $formatter" >&2; exit 1; }

if [[ ${1-} == --check ]]; then
  git ls-files -z '*.h' '*.cc' | xargs -0 -P "$(nproc)" -n 40 "$formatter" --dry-run --Werror
else
  git ls-files -z '*.h' '*.cc' | xargs -0 -P "$(nproc)" -n 40 "$formatter" -i
fi
