"""The watch: what the kernel reports, how often it repairs, and what it does about a change."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import kafka_natmap_guard as guard
import kafka_natmap_inotify as inotify
import kafka_natmap_netlink as netlink
import kafka_natmap_watch as watching
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.kafka.natmap.plugins.filter import natmap as filters
from ansible_collections.kafka.natmap.plugins.module_utils import bundle
from unit.guarded import Machine
from unit.maps import broker, parsed
from unit.nodes import JINJA, planned

# Received from Linux 6.18: `nft delete element` in our map, then `iptables -t nat -N FOO` by iptables-nft.
DELETED_ELEMENT = bytes.fromhex(
    "6c0000000e0a0000000000005e0100000200000f1f0001006b61666b615f6e61746d61705f646174615f706c6174666f726d00000d0002007061"
    "6972735f6871000000002800030024000100100001000c000100c612041623840000100002000c000100c612071623840000"
)
GENERATION_OF_NFT = bytes.fromhex(
    "2c0000000f0a0000010000005e0100000000000f080001000000000f0800020000003a0a080003006e667400"
)
NEW_TABLE_AND_CHAIN = bytes.fromhex(
    "38000000000a0004020000006001000002000011080001006e61740008000300000000010c000400000000000000000908000200000000003800"
    "0000030a0002030000006001000002000011080001006e61740008000300464f4f000c00020000000000000000010800060000000000"
)
GENERATION_OF_IPTABLES = bytes.fromhex(
    "340000000f0a000002000000600100000000001108000100000000110800020000003a160d00030069707461626c657300000000"
)
# Read from inotify while `sed -i` replaced /etc/hosts.
RENAMED_OVER = bytes.fromhex(
    "0100000040000000fc9606001000000073656465334e75506a00000000000000"
    "0100000080000000fc96060010000000686f7374730000000000000000000000"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


# ------------------------------------------------------------ what the kernel reports


def test_a_transaction_names_its_tables_and_its_author() -> None:
    first, second = netlink.changes([DELETED_ELEMENT, GENERATION_OF_NFT, NEW_TABLE_AND_CHAIN + GENERATION_OF_IPTABLES])
    assert first.tables == {"ip kafka_natmap_data_platform"}
    assert first.added == set()
    assert first.by == {"name": "nft", "pid": 350}
    assert (second.tables, second.added) == ({"ip nat"}, {"ip nat"})
    assert second.by == {"name": "iptables", "pid": 352}


def test_a_transaction_without_its_end_has_no_author() -> None:
    assert [change.by for change in netlink.changes([DELETED_ELEMENT])] == [None]


@pytest.mark.parametrize("cut", [3, 15, 17, 40, 107])
def test_a_cut_message_is_dropped(cut: int) -> None:
    assert netlink.changes([DELETED_ELEMENT[:cut]]) == []


def test_an_author_that_lives_is_told_with_its_command() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    attributes = {netlink.GENERATION_NAME: name.encode() + b"\0", netlink.GENERATION_PID: b"\0\0\0\1"}
    author = netlink._author(os.getpid(), attributes)
    assert author["pid"] == os.getpid()
    assert "pytest" in guard.shown(author)


def test_another_process_with_that_number_is_not_the_author() -> None:
    assert netlink._author(os.getpid(), {netlink.GENERATION_NAME: b"nft\0"}) == {"name": "nft", "pid": os.getpid()}


def test_a_file_that_was_renamed_over_is_seen() -> None:
    assert [name for _, _, name in inotify.parse(RENAMED_OVER)] == ["sede3NuPj", "hosts"]


def test_every_way_to_change_a_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\n")
    files = inotify.Files()
    files.add(str(tmp_path))
    for change in (
        lambda: file.write_text("b\n"),
        lambda: (tmp_path / "new").rename(file) if (tmp_path / "new").write_text("c\n") else None,
        lambda: file.open("a").write("d\n"),
        file.unlink,
    ):
        change()
        assert str(file) in files.read()[0]
    files.close()


# ------------------------------------------------------------ how often


def test_three_repairs_in_ten_minutes_then_none_until_ten_quiet_minutes_are_over() -> None:
    limit = guard.Limit()
    for at in (0.0, 100.0, 599.0):
        assert limit.allows(at)
        limit.repaired(at)
    assert not limit.allows(599.5)
    limit.disturbed(700.0)
    assert not limit.allows(1299.0)
    assert limit.ends() == 1300.0
    assert limit.allows(1300.0)
    assert limit.ends() is None


def test_repairs_that_are_far_apart_are_not_bounded() -> None:
    limit = guard.Limit()
    for at in range(0, 6000, 301):
        assert limit.allows(at)
        limit.repaired(at)


# ------------------------------------------------------------ what is done


@pytest.fixture
def hosts_only(machine: Machine) -> Machine:
    """A node whose plan is one line of /etc/hosts: its layer needs no kernel."""
    machine.confirm(parsed(broker("kafka-1:9092", "203.0.113.21:9092"), mechanism="hosts", owner="a"))
    return machine


def spoil(machine: Machine) -> None:
    machine.hosts.write_text(machine.hosts.read_text().replace("203.0.113.21", "203.0.113.66"))


def test_only_our_own_lines_are_put_back(hosts_only: Machine) -> None:
    whole = hosts_only.hosts.read_text()
    spoil(hosts_only)
    hosts_only.hosts.write_text(hosts_only.hosts.read_text() + "10.0.0.9 foreign\n")
    guard.Guard("a").look({"hosts": None}, None)
    assert hosts_only.hosts.read_text() == whole + "10.0.0.9 foreign\n"
    record = hosts_only.audited()[-1]
    assert (record["result"], record["owner"]) == ("repaired", "a")
    assert "203.0.113.66" in record["what"][0]["now"]
    assert hosts_only.said()["repairs"] == 1


def test_the_policy_report_changes_nothing_and_tells_once(machine: Machine) -> None:
    machine.confirm(parsed(broker("kafka-1:9092", "203.0.113.21:9092"), mechanism="hosts", owner="a"), "report")
    spoil(machine)
    one = guard.Guard("a")
    for _ in range(3):
        one.look({"hosts": None}, None)
    assert "203.0.113.66" in machine.hosts.read_text()
    assert [record["result"] for record in machine.audited()] == ["drift"]
    assert (machine.said()["state"], machine.said()["drift"][0]["what"]) == ("reporting", "hosts")


def test_the_fourth_repair_is_not_made_also_by_a_watch_that_was_restarted(
    hosts_only: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    one = guard.Guard("a")
    for _ in range(4):
        spoil(hosts_only)
        one.look({"hosts": None}, None)
    assert "203.0.113.66" in hosts_only.hosts.read_text()
    assert "from now on only reporting" in capsys.readouterr().out
    again = guard.Guard("a")
    again.look({"hosts": None}, None)
    assert "203.0.113.66" in hosts_only.hosts.read_text()
    assert [record["result"] for record in hosts_only.audited()] == ["repaired"] * 3 + ["drift"]
    assert hosts_only.said()["state"] == "paused"


def test_what_stands_is_repaired_when_the_pause_is_over(hosts_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = guard.Guard("a")
    for _ in range(4):
        spoil(hosts_only)
        one.look({"hosts": None}, None)
    later = time.monotonic() + guard.PERIOD + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert one.pause_is_over(later)
    one.look({"hosts": None}, None)
    assert "203.0.113.66" not in hosts_only.hosts.read_text()


def test_nothing_is_done_while_a_switch_is_unconfirmed(hosts_only: Machine) -> None:
    spoil(hosts_only)
    (hosts_only.lib / "a" / "pending.json").write_text("{}")
    assert guard.Guard("a").look({"hosts": None}, None) == guard.ARMED
    assert "203.0.113.66" in hosts_only.hosts.read_text()


def test_a_generation_that_was_deleted_is_written_again(hosts_only: Machine) -> None:
    one, before = guard.Guard("a"), json.loads(hosts_only.generation.read_text())
    hosts_only.generation.unlink()
    one.look(dict.fromkeys(watching.EVERYTHING), None)
    assert json.loads(hosts_only.generation.read_text()) == before


def test_a_repair_that_fails_is_told_and_tried_again(hosts_only: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(hosts_only)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(guard, "put_back", full)
    assert guard.Guard("a").look({"hosts": None}, None) == guard.AGAIN
    assert [record["result"] for record in hosts_only.audited()] == ["repair failed"]


def test_a_removal_takes_the_watch_away() -> None:
    assert bundle.unit_name("a", "watch") in bundle.removal("a")["units"]


def test_another_policy_is_a_change_of_the_unit_and_of_the_digest() -> None:
    plan = planned(parsed(broker(id=1), owner="a"))
    template = JINJA.get_template("kafka-natmap-watch.service.j2")
    printed = {
        drift: template.render(plan=plan.as_dict(), python="/usr/bin/python3", drift=drift)
        for drift in ("repair", "report")
    }
    assert "Policy: report" in printed["report"]
    assert printed["repair"] != printed["report"]
    assert "After=kafka-natmap-a.service " in printed["repair"]


@pytest.mark.parametrize("drift", ["off", ""])
def test_an_unknown_policy_is_refused_with_its_mend(drift: str) -> None:
    with pytest.raises(AnsibleFilterError, match="Mend: set it to repair or report"):
        filters.node_bundle({}, {}, "nm1", [], {}, {}, drift)
