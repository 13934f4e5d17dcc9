#!/usr/bin/env bash
# nightly_python.sh [FOLDER]: what `pip install .` gives, with the PyTorch wheel. Makes a virtual environment in FOLDER
# (default: build/nightly_python), installs the package from this source, PyTorch, onnx and onnxscript, and runs tests/python
# from another folder. Takes minutes, and gigabytes unless TW_TORCH_FLAGS names an index of wheels for processors alone.
#   TW_TORCH_FLAGS more flags for installing PyTorch, e.g. --index-url URL
#   TW_PIP_FLAGS   more flags for installing the package, e.g. -Ccmake.define.TRACEWRIGHT_BUILT=build/release (docs/python.md)
#   TW_PYTHON      the interpreter; default: python3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source=$PWD
folder=$(realpath -m "${1:-build/nightly_python}")

"${TW_PYTHON:-python3}" -m venv "$folder"
pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" --upgrade pip
# Word splitting is wanted: flags.
"${pip[@]}" ${TW_TORCH_FLAGS-} torch
"${pip[@]}" onnx onnxscript
"${pip[@]}" --force-reinstall --no-deps ${TW_PIP_FLAGS-} "$source"
"${pip[@]}" numpy

cd "$folder"  # where the source is not
"$folder/bin/tracewright" --version
"$folder/bin/python" -c 'import tracewright as tw; print("package:", tw.__file__)'
"$folder/bin/python" -c 'import torch; print("PyTorch", torch.__version__); assert "tracewright" in torch._dynamo.list_backends(exclude_tags=())'
for test in test_package test_torch; do
  echo "== $test"
  "$folder/bin/python" "$source/tests/python/$test.py" -v
done
