#!/bin/sh
# All that a map could change on a node, one line each.
nft list ruleset
find /etc /usr/libexec /var/lib/kafka-natmap ! -name audit.jsonl -type f -exec sha256sum {} + 2>/dev/null | sort -k 2
find /etc -type l -exec ls -l {} + | awk '{print $(NF-2), $NF}' | sort
systemctl list-units --all --no-legend 'kafka-natmap*'
