"""Runs on a node: watches our rules, new connections and an open one of the job's user, and another user's open one, while a program acts.

Given the file of a JSON question, it prints one JSON answer. A gap is the longest time in seconds from the last good look
before a bad one to the next good look, so it is never shorter than what happened.
"""

import json
import os
import pwd
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
PATIENCE = 15.0
STEADY = 10


def rules(question):
    """Whether our rules are what they were when this began."""
    before = listing(question["mechanism"])
    while True:
        yield bool(before) and listing(question["mechanism"]) == before


def listing(mechanism):
    """Our rules without counters."""
    if mechanism == "iptables":
        saved = subprocess.run(["iptables-save", "-t", "nat"], capture_output=True, text=True, check=False).stdout
        return [line for line in saved.splitlines() if line.startswith("-A") and "KNM-" in line]
    command = ["nft", "list", "table", "ip", "kafka_natmap_data_platform"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return re.sub(r"counter packets \d+ bytes \d+", "counter", found).splitlines()


def dials(question):
    """As the job's user: a new connection to an advertised address each time."""
    become("yarn")
    while True:
        with socket.socket() as one:
            one.settimeout(0.2)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            yield one.connect_ex(tuple(question["advertised"])) == 0


def carried(question):
    """As the job's user: one connection through our rules, opened before anything happens."""
    become("yarn")
    return talk(question["advertised"])


def others(question):
    """As another user: one connection to a host that no map names, opened before anything happens."""
    become("alice")
    return talk(question["peer"])


def talk(address):
    """Ask a broker, or a peer that gives back what it is sent, again and again on one connection."""
    one = socket.create_connection(tuple(address), timeout=2)
    asked = answered = 0
    rest = b""
    while True:
        if asked - answered < 40:
            one.send(API_VERSIONS)
            asked += 1
        if select.select([one], [], [], 0.1)[0]:
            rest += one.recv(65536)
        new = 0
        while len(rest) >= 4 and len(rest) >= 4 + struct.unpack(">i", rest[:4])[0]:
            rest = rest[4 + struct.unpack(">i", rest[:4])[0] :]
            new += 1
        answered += new
        yield new > 0


def become(user):
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


class Watcher:
    """One look in a process of its own, as another user than root; its timeline comes back through a pipe."""

    def __init__(self, look, question):
        out, into = os.pipe()
        self.child = os.fork()
        if not self.child:
            os.close(out)
            try:
                for good in look(question):
                    os.write(into, struct.pack("=d?", time.monotonic(), good))
                    time.sleep(0.02)
            finally:
                # A connection that broke is not good again.
                os.write(into, struct.pack("=d?", time.monotonic(), False))
                os._exit(1)
        os.close(into)
        self.pipe = out
        self.seen = []

    def read(self):
        while select.select([self.pipe], [], [], 0)[0]:
            data = os.read(self.pipe, 9 * 1000)
            if not data:
                return
            self.seen += struct.iter_unpack("=d?", data)

    def steady(self, since):
        """Whether the last looks, all of them after `since`, were good."""
        self.read()
        last = self.seen[-STEADY:]
        return len(last) == STEADY and last[0][0] > since and all(good for _, good in last)

    def gap(self):
        longest, good_at = 0.0, None
        bad = False
        for at, good in self.seen:
            if good:
                longest = max(longest, at - good_at) if bad and good_at else longest
                good_at, bad = at, False
            else:
                bad = True
        return None if bad else round(longest, 2)

    def end(self):
        """What was looked at last, the end of the wait has read; a look that this cuts short would count as bad."""
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def wait(watchers, since):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not all(one.steady(since) for one in watchers.values()):
        time.sleep(0.02)


def main():
    with open(sys.argv[1]) as asked:
        question = json.load(asked)
    watchers = {look.__name__: Watcher(look, question) for look in (rules, dials, carried, others)}
    wait(watchers, 0.0)
    answer = {"ready": all(one.steady(0.0) for one in watchers.values())}
    begun = time.monotonic()
    done = subprocess.run(question["action"], capture_output=True, text=True, check=False)
    ended = time.monotonic()
    wait(watchers, ended)
    for one in watchers.values():
        one.end()
    answer.update({name: one.gap() for name, one in watchers.items()}, action=round(ended - begun, 2))
    print(json.dumps(dict(answer, code=done.returncode, said=(done.stdout + done.stderr)[-600:])))


main()
