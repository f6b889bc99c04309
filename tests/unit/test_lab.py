"""The lab's data: addresses, what lands on which host, and that the example inventory describes the default lab."""

import io
import ipaddress
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from lab import checks, hostfiles, inventory
from lab.topology import ALL_HOSTS, PARTS, ROOT, Host, Lab, expand, extra_node, hosts

OURS = ipaddress.IPv4Network("198.18.0.0/15")


def files(host: Host) -> dict[str, str]:
    """Path to content; to the target for links."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(hostfiles.archive(host))) as tar:
        for member in tar:
            content = None if member.issym() else tar.extractfile(member)
            found[member.name] = content.read().decode() if content else member.linkname
    return found


def host(name: str, lab: Lab | None = None) -> Host:
    return next(h for h in hosts(lab or Lab()) if h.name == name)


def addresses(lab: Lab) -> list[str]:
    return [a for h in hosts(lab) for a in h.address.values()] + [lab.nat_ip(b) for b in lab.remote()]


@pytest.mark.parametrize("number", [0, 1, 64, 127])
def test_every_address_is_the_labs_own(number: int) -> None:
    mine, neighbours = addresses(Lab("a", number)), addresses(Lab("b", (number + 1) % 128))
    assert all(ipaddress.IPv4Address(a) in OURS for a in mine)
    assert len(set(mine)) == len(mine)
    assert not set(mine) & set(neighbours)


@pytest.mark.parametrize("number", [-1, 128])
def test_a_number_without_room_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 127"):
        Lab("a", number)


def test_the_example_map_is_that_of_the_default_lab() -> None:
    lab = Lab()
    nat_map = yaml.safe_load((ROOT / "inventory/group_vars/all/nat_map.yml").read_text())["nat_map"]
    pairs = {b["reachable"]: b["advertised"] for c in nat_map["clusters"].values() for b in c["brokers"]}
    expected = {f"{lab.nat_ip(h)}:{lab.nat_port(h)}": f"{lab.ip(h)}:9092" for h in lab.hq()}
    expected[f"{lab.nat_ip('dr-1')}:{lab.nat_port('dr-1')}"] = "kafka-dr-1:9092"
    assert pairs == expected


def test_the_example_inventory_is_that_of_the_default_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "BUILD", tmp_path)
    written = json.loads((inventory.write(Lab()) / "hosts.json").read_text())
    assert written == yaml.safe_load((ROOT / "inventory/hosts.yml").read_text())


def test_another_labs_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "BUILD", tmp_path)
    folder = inventory.write(Lab("other", 1, expand(["hq", "router", "nm1"])), ["extra"])
    children = json.loads((folder / "hosts.json").read_text())["all"]["children"]
    assert children["yarn_nodes"]["hosts"] == {
        "nm1": {"ansible_host": "other-nm1"},
        "extra": {"ansible_host": "other-extra"},
    }
    assert children["spark_edge"]["hosts"] == {}
    text = (folder / "group_vars/all/nat_map.yml").read_text()
    assert "advertised: 198.18.4.21:9092, reachable: 198.18.7.21:9092" in text
    assert "198.18.0." not in text


def test_addresses_of_neighbouring_labs_are_not_confused() -> None:
    # The number-0 site, 198.18.1.0, must not be taken for anything of a lab whose own networks were just written.
    text = "198.18.0.9 198.18.1.9 198.18.3.9"
    for number in range(3):
        lab = Lab("x", number)
        assert inventory.translate(text, lab).split() == [f"{lab.prefix(n)}.9" for n in ("hq", "site", "nat")]


@pytest.mark.parametrize("part", [*PARTS, *ALL_HOSTS])
def test_a_partial_lab_is_complete_in_itself(part: str) -> None:
    lab = Lab("p", 3, expand([part]))
    for one in hosts(lab):
        assert "{{" not in "".join(files(one).values())
    for check in checks.checks(lab):
        assert lab.has(check.asked_from, *(h for h, _ in check.units))


def test_an_unknown_host_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"nm9: no such host or part; there are .*nm1"):
        expand(["nm9"])


def test_units_come_up_at_boot() -> None:
    wants = "etc/systemd/system/multi-user.target.wants/"
    enabled = {h.name: {Path(f).name for f in files(h) if f.startswith(wants)} for h in hosts(Lab())}
    assert enabled["hq-1"] == {"kafka.service", "default-route.service"}
    assert enabled["nm1"] == {"yarn-nodemanager.service", "default-route.service"}
    assert enabled["gateway"] == {"default-route.service"}
    assert {"hdfs-namenode.service", "hdfs-datanode.service", "yarn-resourcemanager.service"} <= enabled["master"]
    assert "etc/systemd/system/sysinit.target.wants/nftables.service" in files(host("router"))


def test_services_restart_on_failure() -> None:
    units = [p for p in hostfiles.FILES.rglob("*.service") if "Type=oneshot" not in p.read_text()]
    assert len(units) == 5
    assert all("Restart=on-failure" in p.read_text() for p in units)


def test_nodes_without_a_master_run_no_nodemanager() -> None:
    assert host("nm1", Lab("p", 1, expand(["nodes"]))).roles == ("node",)
    assert "nodemanager" in host("nm1").roles


def test_brokers_advertise_what_the_site_cannot_reach() -> None:
    assert "advertised.listeners=PLAINTEXT://198.18.0.22:9092\n" in files(host("hq-2"))["etc/kafka/server.properties"]
    dr = files(host("dr-1"))["etc/kafka/server.properties"]
    assert "advertised.listeners=PLAINTEXT://kafka-dr-1:9092," in dr
    assert "default.replication.factor=1\n" in dr


def test_the_router_maps_each_broker() -> None:
    rules = files(host("router", Lab("r", 2)))["etc/nftables.conf"]
    assert "198.18.11.21 . 9092 : 198.18.8.21 . 9092," in rules
    assert "198.18.11.20 . 19092 : 198.18.8.41 . 9092," in rules


def test_a_missing_value_names_file_and_place() -> None:
    with pytest.raises(ValueError, match=r"files/x: nothing to put for \{\{ colour \}\}"):
        hostfiles.render("{{ colour }}", {}, "files/x")


def test_the_digest_follows_what_a_container_is_made_of(tmp_path: Path) -> None:
    node = Host("a", {"site": "198.18.1.9"}, (), mounts={"/opt/x": tmp_path / "x"})
    (tmp_path / "x").mkdir()
    before = hostfiles.digest(node, "image:1")
    assert hostfiles.digest(node, "image:1") == before
    assert hostfiles.digest(node, "image:2") != before
    (tmp_path / "x").rename(tmp_path / "old")
    (tmp_path / "x").mkdir()
    assert hostfiles.digest(node, "image:1") != before


def test_added_nodes_run_out_of_addresses_with_a_word() -> None:
    assert extra_node(Lab(), "n", 0).address == {"site": "198.18.1.100"}
    with pytest.raises(ValueError, match="no address left for node n"):
        extra_node(Lab(), "n", 150)
