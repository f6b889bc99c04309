#!/bin/sh
# The node image after its packages: $1 is its root. Users, and no service that nobody asked for.
set -eu
root=$1

for user in yarn hdfs kafka; do
    useradd --root "$root" --system --user-group --create-home --shell /bin/bash "$user"
done
for user in etl alice; do
    useradd --root "$root" --user-group --create-home --shell /bin/bash "$user"
done

java=$(cd "$root" && ls -d usr/lib/jvm/java-17-openjdk-*)
ln -s "/$java" "$root/opt/java"

# Presets enable what was never started here; an empty machine-id gives each host its own without a first boot.
for unit in nginx.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
        e2scrub_reap.service fstrim.timer remote-fs.target systemd-networkd.service systemd-networkd.socket \
        systemd-networkd-wait-online.service; do
    [ ! -e "$root/lib/systemd/system/$unit" ] || systemctl --root "$root" --quiet disable "$unit"
done
: > "$root/etc/machine-id"
