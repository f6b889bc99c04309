"""Trouble sorted: what passes is waited out, what does not ends the job with its cause and how to mend it."""

from __future__ import annotations

import re

SETTINGS, UNEXPECTED, HALTED, NOT_OWNER = 2, 1, 3, 4
REPLAY = "deploy with RUN=<name> FROM=earliest, which begins anew in a state directory of its own"


class Transient(Exception):
    """A part is away: its text says which and why."""


class Changed(Transient):
    """Topics or limits changed: the query has to be planned anew, at once."""


class Stopped(Exception):
    """The loop was asked to end at this batch boundary; the batch is not written."""


class Permanent(Exception):
    """Waiting does not help."""

    def __init__(self, code: str, cause: str, mend: str) -> None:
        super().__init__(f"{code} {cause}")
        self.code, self.cause, self.mend = code, cause, mend


class NotOwner(Permanent):
    """Another application writes from this state directory: nothing in it may be touched."""


KNOWN = (
    (
        r"(?:Topic|Group|Cluster|TransactionalId)AuthorizationException|AccessControlException",
        "NO_RIGHTS",
        "grant Read and Describe on the source's topics, Write and Describe (IdempotentWrite before Kafka 2.8) on the sink's",
    ),
    (
        r"SaslAuthenticationException|SslAuthenticationException|SSLHandshakeException",
        "NO_RIGHTS",
        "mend the credentials or certificates in the settings' options",
    ),
    (
        r"RecordTooLargeException|InvalidRecordException",
        "BAD_RECORD",
        "raise max.message.bytes of the sink's topic, or set on_bad_record: dead_letter",
    ),
    (r"UnsupportedVersionException", "UNSUPPORTED", "these brokers are too old for this job"),
    (
        r"Cannot find schema|ConfigException|NoClassDefFoundError|ClassNotFoundException|AnalysisException",
        "UNSUPPORTED",
        "mend the options, or the jars that are submitted",
    ),
    (r"KAFKA_DATA_LOSS|some data may have been (?:lost|missed)|OffsetOutOfRangeException", "DATA_LOST", REPLAY),
)
BAD = re.compile(r"tagdata\.bad (\w+) ([^\s'\"]+)")
BAD_MEND = {
    "too_large": "raise max.message.bytes of the sink's topic, or set on_bad_record: dead_letter",
    "no_key": "take `compact` out of cleanup.policy of the sink's topic, or set on_bad_record: dead_letter",
    "loop": "another relay carries this topic back: leave it out there or here, or set on_bad_record: dead_letter",
}


def cause(error: BaseException) -> str:
    """The innermost reason of an error that came out of the JVM, in one line."""
    text = str(error)
    causes = re.findall(r"Caused by: (.+)", text)
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*(at |\.\.\. |: )", line)]
    java = re.findall(r"^: (.+)", text, re.MULTILINE)
    line = causes[-1] if causes else java[0] if java else lines[0] if lines else type(error).__name__
    return re.sub(r"^(?:[\w$]+\.)+(?=[A-Z])", "", line.strip())[:400]


def sort(error: BaseException) -> Permanent | Transient:
    """Is this the kind of trouble that passes? What is not known is taken to pass; the caller counts."""
    if isinstance(error, (Permanent, Transient)):
        return error
    text = str(error)
    bad = BAD.search(text)
    if bad:
        return Permanent("BAD_RECORD", f"{bad[1]}: {bad[2]}", BAD_MEND[bad[1]])
    for pattern, code, mend in KNOWN:
        found = re.search(rf"\b(?:{pattern})[^\n]*", text)
        if found:
            return Permanent(code, found[0][:400], mend)
    return Transient(cause(error))
