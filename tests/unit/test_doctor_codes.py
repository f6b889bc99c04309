"""Every code of the doctor has a fault that `make faults-doctor` puts in, and a mend for whoever has no map."""

from __future__ import annotations

import re

import pytest
from faults.doctor_cases import faults
from kafka_doctor_findings import CODES, DETAILS, WITHOUT_MAP, finding
from lab.topology import Lab


def test_every_code_is_injected_once_at_least() -> None:
    expected = " ".join(fault.expected for fault in faults(Lab()))
    assert set(CODES) <= set(re.findall(r"[A-Z][A-Z_]+", expected)), set(CODES) - set(re.findall(r"[A-Z_]+", expected))


@pytest.mark.parametrize("key", sorted(WITHOUT_MAP))
def test_without_a_map_no_mend_asks_for_one_to_be_changed(key: str) -> None:
    code, detail = (key, "") if key in CODES else ("TLS", key)
    about = {"node": "nm1", "advertised": "hq-1:9092", "bootstrap": "hq-1:9092", "free": True}
    said = finding(code, "tls", "seen", about, detail)
    assert "in the map" not in said["mend"]
    assert "{" not in said["mend"].replace("{doctor_security: {protocol: SSL, certfile: FILE, keyfile: FILE}}", "")
    assert key in CODES or key in DETAILS
