#!/usr/bin/env bash
# Installs those packages of packages.txt that are missing, and says so before. Works as root, or as a user with sudo.
# Touches neither the network nor the package lists when nothing is missing.
#   --dry-run   only say what would be installed (and let apt simulate it)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '== %s\n' "$*"; }

# missing required|optional: names of that kind which are not installed, one per line.
missing() {
  local need package
  while read -r need package _; do
    [[ $need == "$1" ]] || continue
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || echo "$package"
  done <"$here/packages.txt"
}

# as_root COMMAND...: runs it directly as root, else through sudo.
as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
    -o DPkg::Lock::Timeout=300 "$@"
}

# manual_way PACKAGE...: what a person can do where this script cannot.
manual_way() { say "to install them yourself, as root:  apt-get update && apt-get install --no-install-recommends $*"; }

# give_up WHY PACKAGE...
give_up() {
  say "$1"
  shift
  manual_way "$@"
  exit 1
}

# Asks for the password, if at all, once.
can_become_root() { [[ $(id -u) == 0 ]] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || sudo -v; }; }; }

install_required() {
  apt_get install -y --no-install-recommends "$@" ||
    give_up "the required packages could not be installed (see the message above; is there a network?)" "$@"
}

# The tests start a PostgreSQL server themselves: Debian's package shall neither make a cluster of its own nor start one.
without_postgres_service() {
  local settings=/etc/postgresql-common/createcluster.conf
  [[ ! -e $settings ]] || return 0  # somebody else's choice
  apt_get install -y --no-install-recommends postgresql-common || return 0
  as_root sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' "$settings"
}

# A package that this release of the archive does not have must not keep the others away.
install_optional() {
  local package known=()
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then known+=("$package"); else say "not in the package lists: $package"; fi
  done
  [[ " ${known[*]} " != *" postgresql "* ]] || without_postgres_service
  ((${#known[@]} == 0)) || apt_get install -y --no-install-recommends "${known[@]}" || go_on_without "${known[@]}"
}

go_on_without() {
  say "going on without optional packages: $*"
  manual_way "$@"
}

# install_all REQUIRED_COUNT PACKAGE...: the first REQUIRED_COUNT packages are required, the others optional.
install_all() {
  local required=("${@:2:$1}") optional=("${@:2+$1}")
  if ! can_become_root; then
    ((${#required[@]} == 0)) || give_up "cannot install packages: you are not root and sudo does not let you" "${required[@]}"
    go_on_without "${optional[@]}"
    return
  fi
  if ! apt_get -o APT::Update::Error-Mode=any update; then
    say "the package lists could not be refreshed"
    # Without a network every single download would run into its timeout.
    ((${#required[@]} > 0)) || { go_on_without "${optional[@]}"; return; }
  fi
  ((${#required[@]} == 0)) || install_required "${required[@]}"
  ((${#optional[@]} == 0)) || install_optional "${optional[@]}"
}

main() {
  local dry_run=no
  [[ ${1-} == --dry-run ]] && dry_run=yes
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "not a Debian system: the build needs the equivalents of the packages in cmake/packages.txt"
    return
  fi
  local required optional
  mapfile -t required < <(missing required)
  mapfile -t optional < <(missing optional)
  local all=("${required[@]}" "${optional[@]}")
  if ((${#all[@]} == 0)); then
    say "all Debian packages are there"
    return
  fi
  ((${#required[@]} == 0)) || say "missing Debian packages (required): ${required[*]}"
  ((${#optional[@]} == 0)) || say "missing Debian packages (optional): ${optional[*]}"
  if [[ $dry_run == yes ]]; then
    apt-get --simulate --no-install-recommends install "${all[@]}"
    return
  fi
  say "installing them now with apt-get"
  install_all ${#required[@]} "${all[@]}"
}

main "$@"
