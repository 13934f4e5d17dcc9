#!/usr/bin/env bash
# Compiles the learned cost model against the PyTorch of this machine and puts it beside the command's library, where it is found. Part of the
# bundle. $PYTHON (python3) is asked where PyTorch is, or $TORCH_DIR says it: the folder with include/ and lib/. $CXX (g++) compiles.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
compiler=${CXX:-g++}

ask() { "$python" -c "import torch; print($1)" 2>/dev/null; }

torch=${TORCH_DIR:-$(ask 'torch.__path__[0]' || true)}
[[ -d $torch/include && -d $torch/lib ]] || { echo "no PyTorch: $python cannot import torch; set PYTHON, or TORCH_DIR to a folder with include/ and lib/" >&2; exit 3; }
command -v "$compiler" >/dev/null || { echo "no C++ compiler: sudo apt install g++, or set CXX" >&2; exit 3; }
# The C++ ABI is that of the PyTorch that is linked, not of one that $python may import beside it.
abi=$(sed -n 's/.*_GLIBCXX_USE_CXX11_ABI=\([01]\).*/\1/p' "$torch/share/cmake/Torch/TorchConfig.cmake" 2>/dev/null | head -n 1)
[[ -n $abi || -n ${TORCH_DIR:-} ]] || abi=$(ask 'int(torch._C._GLIBCXX_USE_CXX11_ABI)' || true)
[[ -n $abi ]] || { abi=1; echo "$torch does not say which C++ ABI it was compiled with (share/cmake/Torch/TorchConfig.cmake): taken to be the C++11 one" >&2; }
libraries=(-ltorch -ltorch_cpu -lc10)
out=${1:-$here/../lib/libtracewright_torch.so}

"$compiler" -std=c++20 -O1 -w -fPIC -shared "-D_GLIBCXX_USE_CXX11_ABI=$abi" "-I$here" "-I$torch/include" "-I$torch/include/torch/csrc/api/include" \
  "$here"/costmodel/torch/*.cc -o "$out" "-L$torch/lib" -Wl,--no-as-needed "${libraries[@]}" "-Wl,-rpath,$torch/lib"
echo "built $(cd "$(dirname "$out")" && pwd)/$(basename "$out") against $torch"
