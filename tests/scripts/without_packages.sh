#!/bin/sh
# without_packages.sh "PATTERN ..." COMMAND...: runs a command where no file of the Debian packages of these names can be seen. It works in
# a mount namespace of its own; nothing on the disk changes. Exit code 77: this machine does not allow that.
set -eu
if [ "${TW_INSIDE-}" != yes ]; then
  [ "$(id -u)" = 0 ] && command -v dpkg-query >/dev/null && unshare -m true 2>/dev/null || exit 77
  TW_INSIDE=yes exec unshare -m "$0" "$@"
fi
patterns=$1
shift
layer=/mnt  # of this name space only
mount -t tmpfs none "$layer" && mkdir "$layer/changes" "$layer/work" || exit 77
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$layer/changes,workdir=$layer/work" /usr || exit 77
# Word splitting is wanted: a list of patterns, a list of packages. Folders stay: rm does not take them.
packages=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $patterns 2>/dev/null | sed -n 's/^installed //p')
[ -z "$packages" ] || dpkg-query -L $packages | sed 's|^/lib/|/usr/lib/|' | xargs -d '\n' rm -f 2>/dev/null || true
exec "$@"
