"""What the logs of spark-submit and of a Spark application say. Pure: text in, facts out."""

from __future__ import annotations

import re
from collections import Counter

_TRACKING = re.compile(r"tracking URL: (\S+)")
_STAMP = re.compile(r"^\S+ \S+ (?P<level>INFO|WARN|ERROR|FATAL) (?P<text>.*)$")
_THROWN = re.compile(r"^(?:Caused by: |Exception in thread \"\S+\" )?(?:\w+\.)*\w*(?:Exception|Error|Interrupt)\b.*$")
_USAGE = re.compile(r"^\S+\.py: error: .*$")
_TOLD = re.compile(r"^tagdata: (?!mend: )(.+)\ntagdata: mend: (.+)$", re.MULTILINE)
_NOISE = ("SparkUserAppException", "SparkException: Application application_")
_MISSED = re.compile(
    r"Connection to node .* could not be established|Disconnecting from node .* connection setup timeout"
)


def application_id(submit_log: str) -> str | None:
    """The application that spark-submit says it submitted."""
    found = re.search(r"Submitted application (application_\d+_\d+)", submit_log)
    return found.group(1) if found else None


def tracking_url(submit_log: str) -> str | None:
    """The ResourceManager's page of that application."""
    found = _TRACKING.findall(submit_log)
    return found[-1] if found else None


def missed_brokers(log: str) -> list[str]:
    """Lines in which the Kafka client says that it reached no broker: each broker once, the most frequent first."""
    lines = [match.group("text") for match in map(_STAMP.match, log.splitlines()) if match]
    counted = Counter(re.sub(r"\[\w+ clientId=\S+\] ", "", line) for line in lines if _MISSED.search(line))
    return [line for line, _ in counted.most_common()]


def root_cause(log: str) -> str | None:
    """The line that says why the application failed: its own last word, else the innermost exception of the last stack trace."""
    told = _TOLD.findall(log)
    if told:
        return f"{told[-1][0]}. Mend: {told[-1][1]}"
    thrown = [line.strip() for line in log.splitlines() if _USAGE.match(line) or _THROWN.match(line)]
    thrown = [line for line in thrown if not any(noise in line for noise in _NOISE)]
    inner = [line[len("Caused by: ") :] for line in thrown if line.startswith("Caused by: ")]
    if inner:
        return inner[-1]
    return re.sub(r"^Exception in thread \S+ ", "", thrown[-1]) if thrown else None
