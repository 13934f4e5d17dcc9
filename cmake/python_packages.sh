#!/usr/bin/env bash
# Puts nanobind into build/python_packages, since Debian 12 has none, and says so before. Touches nothing where Debian's
# Python knows it already. Exit code 0: the module of the Python package can be built; 1: it cannot, and why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=/usr/bin/python3

say() { printf '== %s\n' "$*"; }
give_up() { say "the Python module is not built: $*"; exit 1; }
has_nanobind() { PYTHONPATH=build/python_packages "$python" -m nanobind --cmake_dir >/dev/null 2>&1; }

[[ -x $python ]] || give_up "there is no $python"
"$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  give_up "Python.h is missing (package python3-dev)"
has_nanobind && exit 0
say "downloading nanobind with pip into build/python_packages"
"$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 --target build/python_packages "nanobind>=2.4" ||
  give_up "pip could not bring nanobind (see the message above; is there a network?)"
has_nanobind || give_up "nanobind does not work with $("$python" --version)"
