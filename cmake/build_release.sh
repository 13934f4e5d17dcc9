# Sourced by ./quickstart and ./run-tests, from the top folder: set-up that both share.

# prepare NAME TARGET WHAT ARGUMENT...: reads the arguments of the calling script, installs what is missing, builds TARGET in build/release.
# Exits 0 after the build if --build-only was given.
prepare() {
  local name=$1 target=$2 what=$3 build_only=no argument
  shift 3
  for argument in "$@"; do
    case $argument in
      --build-only) build_only=yes ;;
      -h | --help) printf 'usage: %s [--build-only]\n%s\n' "$name" "$what"; exit 0 ;;
      *) printf '%s: unknown argument %s\nusage: %s [--build-only]\n' "$name" "$argument" "$name" >&2; exit 2 ;;
    esac
  done
  cmake/install_packages.sh
  local flags=()
  if [[ $target == all ]] && cmake/python_packages.sh; then flags=(-DTRACEWRIGHT_PYTHON_MODULE=ON); fi
  printf '== building into build/release with %s jobs\n' "$(build_jobs)"
  cmake --preset release -Wno-dev "${flags[@]}"
  cmake --build --preset release --target "$target" -j "$(build_jobs)"
  if [[ $build_only == yes ]]; then
    printf '== built: build/release/tracewright\n'
    exit 0
  fi
}

# One job per core, but 1.5 GB of memory each: LLVM's and LibTorch's headers need it.
build_jobs() {
  local cores memory_kb
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local by_memory=$((memory_kb / 1500000))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}
