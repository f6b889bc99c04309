"""What YARN says about an attempt that came before: the ResourceManager's word, and each node's list of containers."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Mapping
from typing import Any

from tagdata.java import java
from tagdata.trouble import Transient, cause

CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_(\d+)_\d+")
RECORDS = "org.apache.hadoop.yarn.api.records"
ENDED = {"FINISHED", "FAILED", "KILLED"}
TIMEOUT = 5  # seconds for a node's answer


def myself(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Application and attempt of this driver; outside of YARN the process stands for both."""
    found = CONTAINER.fullmatch(environment.get("CONTAINER_ID", ""))
    return (f"application_{found[1]}", int(found[2])) if found else (f"process-{os.getpid()}", 1)


class Yarn:
    """The ResourceManager of the job's own Hadoop configuration. Transient while it does not answer."""

    def __init__(self, jvm: Any, gateway: Any) -> None:
        self.jvm, self.gateway = jvm, gateway
        self.client: Any = None

    def has_ended(self, owner: Mapping[str, Any]) -> bool:
        """Has this attempt ended? One that the ResourceManager no longer knows has."""
        application, attempt = owner["application"], owner["attempt"]
        if not application.startswith("application_"):
            return _process_has_ended(owner)
        try:
            name = java(self.jvm, f"{RECORDS}.ApplicationId").fromString(application)
            report = self._ask().getApplicationReport(name)
            if str(report.getYarnApplicationState()) in ENDED:
                return True
            which = java(self.jvm, f"{RECORDS}.ApplicationAttemptId").newInstance(name, attempt)
            return str(self._ask().getApplicationAttemptReport(which).getYarnApplicationAttemptState()) in ENDED
        except Exception as error:
            if re.search("Application(Attempt)?NotFoundException", str(error)):
                return True
            raise Transient(f"ResourceManager: {cause(error)}") from error

    def containers(self, owner: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Containers of an attempt that a node still runs, and the nodes that could not be asked."""
        if not owner["application"].startswith("application_"):
            return [], []
        state = java(self.jvm, f"{RECORDS}.NodeState")
        states = self.gateway.new_array(state, 1)
        states[0] = state.RUNNING
        try:
            nodes = [str(node.getHttpAddress()) for node in self._ask().getNodeReports(states)]
        except Exception as error:
            raise Transient(f"ResourceManager: {cause(error)}") from error
        left, silent = [], []
        for node in nodes:
            try:
                left += [name for name in _running(node) if _belongs(name, owner)]
            except (OSError, ValueError):
                silent.append(node)
        return left, silent

    def _ask(self) -> Any:
        if self.client is None:
            configuration = java(self.jvm, "org.apache.hadoop.yarn.conf.YarnConfiguration")()
            # The loop waits by itself, and says so meanwhile.
            configuration.setInt("yarn.resourcemanager.connect.max-wait.ms", 10_000)
            configuration.setInt("ipc.client.connect.max.retries", 2)
            client = java(self.jvm, "org.apache.hadoop.yarn.client.api.YarnClient").createYarnClient()
            client.init(configuration)
            client.start()
            self.client = client
        return self.client


def _process_has_ended(owner: Mapping[str, Any]) -> bool:
    if owner["host"] != os.uname().nodename:
        raise Transient(f"{owner['application']} on {owner['host']} may still run; only YARN could tell")
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    return bool(owner["pid"] == os.getpid())


def _running(node: str) -> list[str]:
    with urllib.request.urlopen(f"http://{node}/ws/v1/node/containers", timeout=TIMEOUT) as answer:
        containers = (json.load(answer).get("containers") or {}).get("container") or []
    return [container["id"] for container in containers if container["state"] not in ("COMPLETE", "DONE")]


def _belongs(container: str, owner: Mapping[str, Any]) -> bool:
    found = CONTAINER.fullmatch(container)
    named = (f"application_{found[1]}", int(found[2])) if found else ()
    return named == (owner["application"], owner["attempt"])
