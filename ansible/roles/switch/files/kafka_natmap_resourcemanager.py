"""Which nodes YARN knows: asked of the ResourceManager that yarn-site.xml names, over its REST API."""

import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.request

from kafka_natmap_hadoop import FOLDERS, Settings, from_units, running
from kafka_natmap_inspect import resolves
from kafka_natmap_system import Refusal
from kafka_natmap_yarn import NODE_MANAGER

RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_PATH = "/ws/v1/cluster/nodes"
_PREFIX = "yarn.resourcemanager."
_ASK_SECONDS = 5.0
_WHOLE_SECONDS = 15.0
_LARGEST = 64 << 20


def nodes():
    """{"nodes": [{"host", "state", "addresses"}], "resource_manager": URL or None, "problem": None or text}."""
    answer = {"nodes": [], "resource_manager": None, "problem": None}
    deadline = time.monotonic() + _WHOLE_SECONDS
    said = []
    try:
        for base in web_addresses(settings_of_this_host()):
            found, problem = ask(base + _PATH, deadline)
            if problem is None:
                states = states_of(found)
                known = resolves(sorted(states))
                rows = [{"host": h, "state": s, "addresses": known.get(h, [])} for h, s in sorted(states.items())]
                return dict(answer, nodes=rows, resource_manager=base)
            said.append("%s: %s" % (base, problem))
    except Refusal as refusal:
        said.append(str(refusal))
    return dict(answer, problem="; ".join(said))


def settings_of_this_host():
    """The settings of a YARN daemon that runs here or has a unit, else those of the usual folders."""
    for main_class in (NODE_MANAGER, RESOURCE_MANAGER):
        for daemon in running(main_class)[0]:
            return Settings(daemon)
    for word in ("nodemanager", "resourcemanager"):
        for daemon in from_units(word):
            return Settings(daemon)
    given = [os.environ.get(name) for name in ("YARN_CONF_DIR", "HADOOP_CONF_DIR")]
    return Settings(None, [folder for folder in given if folder] + list(FOLDERS))


def web_addresses(settings):
    """The base URL of each ResourceManager: one, or every one of `rm-ids` (yarn-default.xml).

    :raises Refusal: where yarn-site.xml names none
    """
    if not settings.file("yarn-site.xml"):
        raise Refusal(
            "no yarn-site.xml in %s" % ", ".join(settings.folders),
            "ask from a host of the YARN cluster, or set HADOOP_CONF_DIR for its daemons",
        )
    secure = settings.get("yarn.http.policy", "HTTP_ONLY").upper() == "HTTPS_ONLY"
    kind, scheme, port = ("webapp.https.address", "https", 8090) if secure else ("webapp.address", "http", 8088)
    ids = [""]
    if settings.flag(_PREFIX + "ha.enabled", False):
        ids = ["." + one.strip() for one in settings.get(_PREFIX + "ha.rm-ids").split(",") if one.strip()]
    found = []
    for suffix in ids or [""]:
        host = settings.get(_PREFIX + "hostname" + suffix) or settings.get(_PREFIX + "hostname")
        address = settings.get(_PREFIX + kind + suffix) or (not suffix and settings.get(_PREFIX + kind))
        address = address or (host and "%s:%d" % (host, port))
        if address and not address.startswith("0.0.0.0"):
            found.append("%s://%s" % (scheme, address if ":" in address else "%s:%d" % (address, port)))
    if not found:
        raise Refusal(
            "yarn-site.xml (%s) names no ResourceManager" % settings.file("yarn-site.xml"),
            "ask from a host whose yarn-site.xml has %shostname" % _PREFIX,
        )
    return found


class _Stay(urllib.request.HTTPRedirectHandler):
    """A standby ResourceManager redirects to the active one, which is asked anyway."""

    def redirect_request(self, *_):
        """Follow nothing."""
        return None


def ask(url, deadline):
    """The JSON at a URL, or None and why there is none; bounded in time and size, without proxies."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    left = deadline - time.monotonic()
    if left <= 0:
        return None, "not asked, the time was over"
    try:
        with opener.open(request, timeout=min(_ASK_SECONDS, left)) as response:
            return json.loads(_read(response, deadline).decode("utf-8")), None
    except urllib.error.HTTPError as error:
        return None, _http_problem(error)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return None, "its certificate is not trusted here (%s): add its CA to this node's trust store" % reason
        return None, "no answer: %s" % ("timed out" if isinstance(reason, socket.timeout) else reason)
    except ValueError as error:
        return None, "no answer of a ResourceManager: %s" % error


def _read(response, deadline):
    """The body, in pieces, so that a server that trickles cannot hold us."""
    parts, size = [], 0
    while True:
        part = response.read1(1 << 16) if hasattr(response, "read1") else response.read(1 << 16)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > _LARGEST:
            raise ValueError("it is larger than %d MB" % (_LARGEST >> 20))
        if time.monotonic() > deadline:
            raise socket.timeout()
        parts.append(part)


def _http_problem(error):
    if error.code in (301, 302, 303, 307, 308):
        return "a standby, or not the ResourceManager itself (it redirects)"
    if error.code == 401:
        kind = error.headers.get("WWW-Authenticate") or "unknown"
        return "needs authentication (%s), which this program does not have" % kind.split()[0]
    if error.code == 403:
        return "needs authentication, or does not let this host ask (403)"
    return "HTTP %d" % error.code


def states_of(found):
    """Host to state; where several NodeManagers share a host, one that runs goes first.

    :raises ValueError: where this is not the answer of a ResourceManager
    """
    if not isinstance(found, dict) or "nodes" not in found:
        raise Refusal("what answered is no ResourceManager", "correct the address in yarn-site.xml")
    states = {}
    for row in (found["nodes"] or {}).get("node") or []:
        host = str(row.get("nodeHostName") or str(row.get("id", "")).rpartition(":")[0])
        if host and states.get(host) != "RUNNING":
            states[host] = str(row.get("state", "UNKNOWN"))
    return states
