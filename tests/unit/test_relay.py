"""The relay is a job that any Spark user would write, and hands every option through."""

import argparse
import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[2] / "spark_app" / "relay.py"
NEEDED = ["--source-bootstrap=a:1", "--source-topic=t", "--sink-bootstrap=b:1", "--checkpoint=hdfs:///c"]


@pytest.fixture(scope="module")
def relay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("relay", SOURCE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """Stands for Spark's reader, writer and frame: remembers what was asked of it."""

    def __init__(self) -> None:
        self.options_: dict[str, object] = {}
        self.calls: list[tuple[str, object]] = []

    @property
    def readStream(self) -> "Recorder":
        return self

    @property
    def writeStream(self) -> "Recorder":
        return self

    def option(self, key: str, value: object) -> "Recorder":
        return self.options(**{key: value})

    def options(self, **options: object) -> "Recorder":
        self.options_.update(options)
        return self

    def trigger(self, **trigger: object) -> "Recorder":
        self.calls.append(("trigger", trigger))
        return self

    def __getattr__(self, name: str) -> object:
        def call(*arguments: object) -> "Recorder":
            self.calls.append((name, arguments))
            return self

        return call


def test_is_at_most_80_lines_long() -> None:
    assert len(SOURCE.read_text().splitlines()) <= 80


def test_imports_only_the_standard_library_and_pyspark() -> None:
    names = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            names.add(node.module or "")
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"pyspark"}


def test_knows_nothing_of_the_network_between() -> None:
    assert not re.findall(r"\bd?nat\b|rewrit|natmap|nftables|reachable", SOURCE.read_text(), re.IGNORECASE)


def test_reads_every_column_that_the_sink_keeps(relay: ModuleType) -> None:
    spark = Recorder()
    relay.read(spark, relay.parse([*NEEDED]))
    assert spark.options_ == {
        "kafka.bootstrap.servers": "a:1",
        "subscribe": "t",
        "includeHeaders": True,
        "startingOffsets": "earliest",
    }
    assert spark.calls[-1] == ("select", ("topic", "partition", "key", "value", "headers"))


def test_hands_source_options_through_and_lets_them_win(relay: ModuleType) -> None:
    spark = Recorder()
    options = ["--source-option=startingOffsets=latest", "--source-option=kafka.sasl.jaas.config=a b='c=d';"]
    relay.read(spark, relay.parse([*NEEDED, *options]))
    assert spark.options_["startingOffsets"] == "latest"
    assert spark.options_["kafka.sasl.jaas.config"] == "a b='c=d';"


@pytest.mark.parametrize(
    ("arguments", "trigger", "options"),
    [
        ([], {"processingTime": "1 second"}, {}),
        (["--interval=5 seconds"], {"processingTime": "5 seconds"}, {}),
        (["--available-now"], {"availableNow": True}, {}),
        (
            ["--sink-topic=u", "--sink-option=kafka.acks=all"],
            {"processingTime": "1 second"},
            {"topic": "u", "kafka.acks": "all"},
        ),
    ],
)
def test_writes_as_told(
    relay: ModuleType, arguments: list[str], trigger: dict[str, object], options: dict[str, str]
) -> None:
    frame = Recorder()
    relay.write(frame, relay.parse([*NEEDED, *arguments]))
    assert frame.options_ == {"kafka.bootstrap.servers": "b:1", "checkpointLocation": "hdfs:///c", **options}
    assert ("trigger", trigger) in frame.calls
    assert frame.calls[-1] == ("start", ())


def test_takes_its_arguments_from_a_file(relay: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "relay.args"
    file.write_text("\n".join([*NEEDED, "--available-now", "--interval=2 seconds"]) + "\n")
    assert relay.parse([f"@{file}"]).available_now


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required: --source-bootstrap, --source-topic, --sink-bootstrap, --checkpoint"),
        ([*NEEDED, "--source-option=x"], "--source-option: 'x' is not of the form KEY=VALUE"),
        ([*NEEDED, "--sink-option==x"], "--sink-option: '=x' is not of the form KEY=VALUE"),
        ([*NEEDED, "--nonsense"], "unrecognized arguments: --nonsense"),
        (["@nowhere.args"], "nowhere.args"),
    ],
)
def test_says_what_is_wrong_with_its_arguments(
    relay: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        relay.parse(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_explains_itself(relay: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        relay.parse(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "spark-submit --master yarn" in text
    assert all(option in text for option in ("--available-now", "--checkpoint", "--source-option", "--sink-option"))


def test_splits_an_option_once(relay: ModuleType) -> None:
    assert relay.option("a=b=c") == ("a", "b=c")
    with pytest.raises(argparse.ArgumentTypeError):
        relay.option("a")
