"""What the relay job is submitted with: Spark's properties for a job that runs for months. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Property(NamedTuple):
    """One of Spark's properties, and why the job needs it."""

    name: str
    value: str
    why: str
    fixed: bool = False


# Fixed: a promise of the job falls with another value.
LASTING = (
    Property("spark.speculation", "false", "a second copy of a task writes its records twice", True),
    Property("spark.dynamicAllocation.enabled", "false", "executors come and go between batches, and tasks with them", True),
    Property("spark.task.maxFailures", "1", "a task tried again writes its share again, unseen by `dedup` (4 without `dedup`)", True),
    Property("spark.yarn.maxAppAttempts", "4", "a lost node or driver is no end"),
    Property("spark.yarn.am.attemptFailuresValidityInterval", "1h", "four failures within an hour are one, not four in a year"),
    Property("spark.executor.maxNumFailures", "16", "the same for executors"),
    Property("spark.executor.failuresValidityInterval", "1h", "the same for executors"),
    Property("spark.driver.minMemoryOverhead", "768m", "YARN may end a container that takes more than its size; beside its heap a driver took 500 MiB, Python among it; 384m by default"),
    Property("spark.executor.minMemoryOverhead", "512m", "the same; an executor took 300 MiB"),
    Property("spark.executor.defaultJavaOptions", "-XX:G1HeapRegionSize=8m", "a fetch is smaller than half a region, or G1 treats it as humongous and marks the heap for it"),
    Property("spark.ui.retainedJobs", "100", "the driver keeps each batch's jobs, stages and plans: 1000 by default"),
    Property("spark.ui.retainedStages", "100", "as above"),
    Property("spark.ui.retainedTasks", "1000", "as above: 100000 by default"),
    Property("spark.sql.ui.retainedExecutions", "100", "as above"),
    Property("spark.eventLog.rolling.enabled", "true", "where the site keeps event logs, one file would grow for months"),
    Property("spark.redaction.regex", "(?i)secret|password|token|access[.]?key|sasl|jaas|keytab", "no secret in the UI or a log"),
)  # fmt: skip


def submitted(
    resolved: Mapping[str, Any], place: Mapping[str, str], share: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, str]:
    """The properties of one relay.

    :param share: memory, executors, queue, keytab and principal; empty values are left out
    :param more: what the site adds or sets otherwise
    """
    own = {"spark.app.name": f"tagdata {place['title']}"}
    given = {name: _text(value) for name, value in {**share, **more}.items() if _text(value)}
    tags = ",".join(filter(None, ("tagdata", place["tag"], given.get("spark.yarn.tags", ""))))
    return {**lasting(resolved), **own, **given, "spark.yarn.tags": tags}


def audited(place: Mapping[str, str], share: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a relay's audit: a batch job of a tag of its own, or it would count as the relay."""
    given = {name: _text(value) for name, value in {**share, **more}.items() if _text(value)}
    own = {"spark.app.name": f"tagdata-audit {place['title']}", "spark.yarn.maxAppAttempts": "1"}
    redaction = {one.name: one.value for one in LASTING if one.name == "spark.redaction.regex"}
    return {**redaction, **given, **own, "spark.yarn.tags": "tagdata-audit"}


def lasting(resolved: Mapping[str, Any]) -> dict[str, str]:
    """The properties of the table, as this relay needs them."""
    properties = {one.name: one.value for one in LASTING}
    return {**properties, **({} if resolved["dedup"] else {"spark.task.maxFailures": "4"})}


def broken(resolved: Mapping[str, Any], more: Mapping[str, Any]) -> list[str]:
    """What the site's own properties would break of the job's promises."""
    needed = lasting(resolved)
    return [
        f"spark_job_conf: {one.name}={_text(more[one.name])}, but {one.why}. Mend: leave it out, it is {needed[one.name]}"
        for one in LASTING
        if one.fixed and one.name in more and _text(more[one.name]) != needed[one.name]
    ]


def contradictions(login: Mapping[str, str]) -> list[str]:
    """Who submits: a keytab with its principal, or a proxy user, or whoever is logged in."""
    wrong = []
    if bool(login["keytab"]) != bool(login["principal"]):
        wrong.append("spark_job_keytab: needs spark_job_principal, and it the keytab. Mend: set both or none")
    if login["proxy_user"] and login["keytab"]:
        wrong.append("spark_job_proxy_user: excludes a keytab, Spark takes one of them. Mend: leave one out")
    return wrong


def table() -> str:
    """The properties as a table of Markdown."""
    rows = [f"| `{one.name}` | `{one.value.replace('|', chr(92) + '|')}` | {one.why} |\n" for one in LASTING]
    return "| property | value | why |\n|---|---|---|\n" + "".join(rows)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
