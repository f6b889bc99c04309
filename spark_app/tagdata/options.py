"""Which options of Spark's Kafka source and sink a relay may be given. Standard library only, as settings is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tagdata.fields import Fields

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class End:
    """One end's rules: names in lower case that the job sets itself, Spark's own names, and what has but one value."""

    own: re.Pattern[str]
    spark: tuple[str, ...] = ()
    fixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# Any other value of the job's own options would break one of its promises.
SOURCE = End(
    re.compile(
        r"subscribe(pattern)?|assign|(starting|ending)(offsets|timestamp).*|failondataloss|m(ax|in)offsetspertrigger"
        r"|maxtriggerdelay|minpartitions|maxrecordsperpartition|includeheaders|groupidprefix"
        r"|kafka\.(bootstrap\.servers|group\.id|client\.id|auto\.offset\.reset|enable\.auto\.commit|(key|value)\.deserializer"
        r"|interceptor\.classes)"
    ),
    ("kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms"),
)
SINK = End(
    re.compile(
        r"topic|includeheaders|kafka\.(bootstrap\.servers|client\.id|transactional\.id|(key|value)\.serializer"
        r"|interceptor\.classes)"
    ),
    fixed={"kafka.acks": ("all", "-1"), "kafka.enable.idempotence": ("true",)},
)


def check_options(fields: Fields, options: Mapping[str, str], end: End) -> None:
    """Tell `fields` what will not do: what the job sets itself, what nobody would heed, and what contradicts itself."""
    for key in options:
        if end.own.fullmatch(key.lower()):
            fields.problem(f"options.{key}", "is set by the job itself", "leave it out")
        elif not key.startswith("kafka.") and key.lower() not in end.spark:
            fields.problem(f"options.{key}", "is no option that Spark heeds", f"for Kafka's client write kafka.{key}")
    for key, allowed in end.fixed.items():
        if options.get(key, allowed[0]) not in allowed:
            fields.problem(f"options.{key}", "records could get lost", f"leave it out: it is {allowed[0]}")
    size = options.get("kafka.batch.size", "0")
    if not re.fullmatch("[0-9]{1,10}", size):
        fields.problem("options.kafka.batch.size", f"{size!r} will not do", "give a whole number of bytes")
    _check_security(fields, options)


def _check_security(fields: Fields, options: Mapping[str, str]) -> None:
    given = options.get("kafka.security.protocol", "PLAINTEXT")
    if given.upper() not in PROTOCOLS:
        mend = f"give one of {', '.join(PROTOCOLS)}"
        fields.problem("options.kafka.security.protocol", f"{given!r} will not do", mend)
        return
    for part in ("SASL", "SSL"):
        if part in given.upper():
            continue
        meant = " or ".join(one for one in PROTOCOLS if part in one)
        for key in sorted(key for key in options if key.startswith(f"kafka.{part.lower()}.")):
            wrong = f"has no effect with kafka.security.protocol {given}"
            fields.problem(f"options.{key}", wrong, f"set kafka.security.protocol to {meant}, or leave it out")
