"""Do Spark, its Kafka connector, Scala and the Kafka client belong together? By the names of their jars. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from relay_rules import Finding

CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<version>\d+\.\d+\.\d+.*)\.jar")
PARTS = {
    "spark-sql-kafka-0-10": re.compile(r"spark-sql-kafka-0-10_(?P<scala>\d+\.\d+)-(?P<version>\d.*)\.jar"),
    "spark-token-provider-kafka-0-10": re.compile(
        r"spark-token-provider-kafka-0-10_(?P<scala>\d+\.\d+)-(?P<version>\d.*)\.jar"
    ),
    "kafka-clients": re.compile(r"kafka-clients-(?P<version>\d.*)\.jar"),
    "commons-pool2": re.compile(r"commons-pool2-(?P<version>\d.*)\.jar"),
}
MEND = "put the connector of exactly this Spark and Scala into spark_job_jars_dir: make setup does for the pinned one"


def versions(spark: Iterable[str], connector: Iterable[str]) -> list[Finding]:
    """Findings about the jars of Spark's own folder and those that are submitted."""
    cores = [found for found in map(CORE.fullmatch, spark) if found]
    if not cores:
        mend = "set spark_job_spark_home to a Spark that is installed whole on the edge"
        return [Finding("error", "VERSIONS", "spark_job_spark_home", "holds no spark-core jar", mend)]
    core, names, found = cores[0], list(connector), []
    for part, pattern in PARTS.items():
        jars = [match for match in map(pattern.fullmatch, names) if match]
        if len(jars) != 1:
            told = "is missing" if not jars else "is there in several versions: " + ", ".join(j[0] for j in jars)
            found.append(Finding("error", "VERSIONS", f"jars.{part}", told, MEND))
            continue
        has = jars[0].groupdict()
        if "scala" in has and has["scala"] != core["scala"]:
            told = f"{jars[0][0]} is for Scala {has['scala']}, Spark {core['version']} on the edge for {core['scala']}"
            found.append(Finding("error", "VERSIONS", f"jars.{part}", told, MEND))
        elif part == "spark-sql-kafka-0-10" and has["version"] != core["version"]:
            told = f"{jars[0][0]} is not of Spark {core['version']}, which is on the edge"
            found.append(Finding("error", "VERSIONS", f"jars.{part}", told, MEND))
        elif "scala" in has and has["version"] != core["version"]:
            told = f"{jars[0][0]} beside Spark {core['version']}: runs, but not with Kafka's delegation tokens"
            found.append(Finding("warning", "VERSIONS", f"jars.{part}", told, MEND))
    return found
