#!/usr/bin/env bash
# pack_bundle.sh FOLDER: checks an installed bundle and makes FOLDER.tar.gz of it. Fails if a program needs a library that is neither in the
# bundle nor part of the C and C++ runtime of every Linux, or if the archive has 60 MiB or more. (gzip: a bare system has no other.)
set -euo pipefail
folder=$1
limit=$((60 << 20))

needed_by() { readelf -d "$1" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

missing=0
for file in "$folder"/bin/* "$folder"/lib/*; do
  for library in $(needed_by "$file"); do
    case $library in
      libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libgcc_s.so.1 | libstdc++.so.6 | ld-linux-*) ;;
      *) [[ -e $folder/lib/$library ]] || { echo "$file needs $library, which is not in the bundle" >&2; missing=1; } ;;
    esac
  done
done
((missing == 0)) || exit 1

tar --create --sort=name --owner=0 --group=0 --numeric-owner --directory "$(dirname "$folder")" "$(basename "$folder")" | gzip -9 >"$folder.tar.gz"
bytes=$(stat --format %s "$folder.tar.gz")
printf '%s: %d.%d MiB\n' "$folder.tar.gz" $((bytes >> 20)) $(((bytes & 1048575) * 10 >> 20))
((bytes < limit)) || { echo "the bundle must be smaller than 60 MiB" >&2; exit 1; }
