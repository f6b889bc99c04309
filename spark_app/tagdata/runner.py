"""From the settings to the loop: every way in which the job can refuse before it begins."""

from __future__ import annotations

import traceback

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tagdata import trouble
from tagdata.fields import SettingsError
from tagdata.files import StateDir
from tagdata.loop import HALTED, Runner
from tagdata.settings import Settings, load
from tagdata.telling import refuse
from tagdata.trouble import Permanent
from tagdata.yarn import myself


def main(arguments: list[str]) -> int:
    """Run the job with the resolved settings of a file; returns the exit code."""
    if len(arguments) != 1:
        return refuse(
            "SETTINGS", "one argument is needed", "tagdata.py FILE.json, of resolved settings", trouble.SETTINGS
        )
    try:
        return _run(load(arguments[0]))
    except SettingsError as error:
        for problem in error.problems:
            refuse("SETTINGS", f"{problem.path}: {problem.wrong}", problem.mend, trouble.SETTINGS)
        return trouble.SETTINGS
    except Permanent as error:
        return refuse(error.code, error.cause, error.mend, trouble.HALTED)
    except Exception as error:
        cause = trouble.cause(error)
        if not isinstance(error, trouble.Transient):
            traceback.print_exc()
        return refuse("UNEXPECTED", cause, "YARN tries again; if it goes on, read this log", trouble.UNEXPECTED)


def _run(settings: Settings) -> int:
    SparkContext._ensure_initialized()  # the JVM alone: a refusal needs no executors
    files = StateDir(SparkContext._jvm, SparkContext._gateway, settings.state_path)
    halted = files.load(HALTED)
    if halted and halted["application"] == myself()[0]:
        return refuse(halted["code"], halted["cause"], halted["mend"], trouble.HALTED)
    spark: SparkSession = SparkSession.builder.appName(f"tagdata-{settings.name}").getOrCreate()
    # Only a batch that is written again is shuffled.
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * spark.sparkContext.defaultParallelism))
    retried = spark.sparkContext.getConf().get("spark.task.maxFailures")
    if settings.dedup and spark.sparkContext.master == "yarn" and retried != "1":
        mend = "submit with spark.task.maxFailures=1, or set dedup: false"
        return refuse("SETTINGS", "dedup: a task that is retried repeats its share unseen", mend, trouble.SETTINGS)
    return Runner(spark, settings, files).run()
