"""Lint of an nginx that stands in front of Kafka: its files are read, nothing is started."""

import glob
import os
import re

from kafka_natmap_system import read_text

_TOKEN = re.compile(r"\s*(?:(#[^\n]*)|([{};])|\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s{};\"'][^\s{};]*))")
_SECONDS = re.compile(r"(\d+)(ms|s|m|h|d|w|)")
_UNITS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
# Of nginx's own modules, in seconds (nginx.org, ngx_stream_proxy_module).
DEFAULT_IDLE, SHORTEST_CONNECT = 600.0, 2.0
_LARGEST, _DEEPEST, _MOST_FILES = 4 << 20, 8, 500


class Block:
    """A directive: its words, and those inside its braces."""

    def __init__(self, words, inside=()):
        self.words, self.inside = words, list(inside)

    def all(self, name):
        return [one for one in self.inside if one.words and one.words[0] == name]

    def first(self, name):
        return next((one.words[1] for one in self.all(name) if len(one.words) > 1), None)


def running():
    """Configuration files of the nginx masters that run on this node."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            said = read_text(path) or ""
        except OSError:
            continue
        if said.startswith("nginx: master process"):
            named = re.search(r"\s-c\s+(\S+)", said.replace("\0", " "))
            found.append(named.group(1) if named else "/etc/nginx/nginx.conf")
    return sorted(set(found))


def parse(path, seen=None, root=None):
    """The directives of a file, with those that it includes."""
    seen = set() if seen is None else seen
    root = root or os.path.dirname(path)
    if path in seen or len(seen) > _MOST_FILES:
        return []
    seen.add(path)
    try:
        text = read_text(path)
    except OSError:
        return []
    return _read(iter(_tokens((text or "")[:_LARGEST])), seen, root, 0)


def _tokens(text):
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if not found:
            return
        at = found.end()
        comment, sign, double, single, word = found.groups()
        if sign:
            yield sign
        elif comment is None:
            yield ("", next(part for part in (double, single, word) if part is not None))


def _read(tokens, seen, root, depth):
    found, words = [], []
    for token in tokens:
        if isinstance(token, tuple):
            words.append(token[1])
        elif token == "{":
            found.append(Block(words, _read(tokens, seen, root, depth + 1) if depth < _DEEPEST else ()))
            words = []
        elif token == ";":
            if len(words) == 2 and words[0] == "include":
                for path in sorted(glob.glob(os.path.join(root, words[1]))):
                    found += parse(path, seen, root)
            else:
                found.append(Block(words))
            words = []
        else:
            break
    return found


def lint(path, kafka, most_idle_ms):
    """What is wrong with a configuration for Kafka: a list of {"code", "listen", "evidence"}.

    :param kafka: function that tells whether "host:port" is a Kafka broker
    :param most_idle_ms: the clients' connections.max.idle.ms
    """
    top = Block([], parse(path))
    found = []
    for stream in top.all("stream"):
        for server in stream.all("server"):
            found += _stream_server(path, stream, server, kafka, most_idle_ms)
    for http in top.all("http"):
        for server in http.all("server"):
            for to in _passed(server):
                targets = _targets(http, re.sub(r"^https?://", "", to).split("/")[0])
                if any(kafka(target) for target in targets):
                    said = "%s: http server on %s passes to %s" % (path, server.first("listen") or "80", to)
                    found.append({"code": "PROXY_HTTP", "listen": server.first("listen") or "80", "evidence": said})
    return found


def listeners(text):
    """Where each listener of a stream configuration leads: {"IP:port": "IP:port"}."""
    top = Block([], _read(iter(_tokens(text)), set(), "/nonexistent", 0))
    servers = [server for stream in top.all("stream") for server in stream.all("server")]
    return {server.first("listen"): server.first("proxy_pass") for server in servers}


def _passed(server):
    places = [server]
    while places:
        place = places.pop()
        for one in place.inside:
            if one.words[:1] == ["proxy_pass"] and len(one.words) > 1:
                yield one.words[1]
        places += place.all("location") + place.all("if")


def _targets(context, name):
    """The servers of an upstream, or the address itself."""
    for upstream in context.all("upstream"):
        if upstream.words[1:2] == [name]:
            live = [one.words for one in upstream.all("server") if len(one.words) > 1]
            return [words[1] for words in live if "backup" not in words and "down" not in words]
    return [name]


def _stream_server(path, stream, server, kafka, most_idle_ms):
    to = server.first("proxy_pass")
    targets = _targets(stream, to) if to else []
    if not any(kafka(target) for target in targets):
        return []
    listen = server.first("listen") or "?"
    place = "%s: stream server on %s" % (path, listen)
    found = []
    if len(set(targets)) > 1:
        said = "%s balances over %s" % (place, ", ".join(targets))
        found.append({"code": "PROXY_BALANCED", "listen": listen, "evidence": said})
    idle = _seconds(server.first("proxy_timeout") or stream.first("proxy_timeout"), DEFAULT_IDLE)
    if idle * 1000 < most_idle_ms:
        said = "%s ends idle connections after %g s; clients keep them for %g s" % (place, idle, most_idle_ms / 1000.0)
        found.append({"code": "IDLE_TIMEOUT_SHORT", "listen": listen, "evidence": said})
    connect = _seconds(server.first("proxy_connect_timeout") or stream.first("proxy_connect_timeout"), 60.0)
    if connect < SHORTEST_CONNECT:
        said = "%s gives a broker %g s to take a connection" % (place, connect)
        found.append({"code": "CONNECT_TIMEOUT_SHORT", "listen": listen, "evidence": said})
    return found


def _seconds(text, default):
    """nginx's way to write a time, as "1m 30s"."""
    parts = _SECONDS.findall(text or "")
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else default
