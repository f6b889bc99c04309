#!/bin/sh
# Packages beyond the node image's own: $1 is its root, then their names. What they would start at boot waits to be asked.
set -eu
root=$1
shift
for package; do
    chroot "$root" dpkg-query --listfiles "$package" | grep -E '/lib/systemd/system/[^/@]+\.(service|socket|timer)$' || continue
done | sort -u | while read -r unit; do
    systemctl --root "$root" --quiet disable "$(basename "$unit")"
done
