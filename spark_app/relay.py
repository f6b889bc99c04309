"""Copy Kafka topics from one cluster to another with Structured Streaming: key, value, headers and partition are kept."""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

EPILOG = """
An argument @FILE stands for the lines of FILE, one argument a line: secrets belong there, never on a command line.
The topics of the sink must exist, with at least as many partitions as those of the source.

Example:
  spark-submit --master yarn --deploy-mode cluster --files relay.args relay.py @relay.args
  where relay.args holds
    --source-bootstrap=kafka-a:9092
    --source-topic=audit
    --sink-bootstrap=kafka-b:9092
    --checkpoint=hdfs://namenode:8020/user/etl/relay/audit
    --source-option=startingOffsets=latest
    --sink-option=kafka.compression.type=lz4
"""


def option(text: str) -> tuple[str, str]:
    """Split KEY=VALUE at the first equals sign."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with a usage text where it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        fromfile_prefix_chars="@",
    )
    add = parser.add_argument
    add("--source-bootstrap", required=True, metavar="HOST:PORT,...", help="brokers to read from")
    add("--source-topic", required=True, metavar="TOPIC,...", help="topics to read")
    add("--sink-bootstrap", required=True, metavar="HOST:PORT,...", help="brokers to write to")
    add("--sink-topic", metavar="TOPIC", help="topic to write (default: the topic that a record came from)")
    add("--checkpoint", required=True, metavar="URI", help="checkpoint directory, of this relay alone")
    add("--available-now", action="store_true", help="end when all that is there now has been copied")
    add("--interval", default="1 second", help="time between two micro-batches (default: %(default)s)")
    for end in "source", "sink":
        text = f"option of the Kafka {end}, such as kafka.request.timeout.ms=4000; may be repeated"
        add(f"--{end}-option", type=option, action="append", default=[], metavar="KEY=VALUE", help=text)
    return parser.parse_args(arguments)


def read(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """The source's records in the columns that the Kafka sink takes."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", args.source_bootstrap)
    reader = reader.option("subscribe", args.source_topic).option("includeHeaders", True)
    reader = reader.option("startingOffsets", "earliest").options(**dict(args.source_option))
    return reader.load().select("topic", "partition", "key", "value", "headers")


def write(records: DataFrame, args: argparse.Namespace) -> StreamingQuery:
    """Start the query that writes the records to the sink."""
    writer = records.writeStream.format("kafka").option("kafka.bootstrap.servers", args.sink_bootstrap)
    writer = writer.option("checkpointLocation", args.checkpoint).options(**dict(args.sink_option))
    if args.sink_topic:
        writer = writer.option("topic", args.sink_topic)
    once = {"availableNow": True} if args.available_now else {"processingTime": args.interval}
    return writer.trigger(**once).start()


if __name__ == "__main__":
    arguments = parse()
    write(read(SparkSession.builder.appName("relay").getOrCreate(), arguments), arguments).awaitTermination()
