"""Whose processes the containers of this node's YARN are: what its yarn-site.xml and container-executor.cfg decide."""

import os
import pwd
import re

from kafka_natmap_hadoop import Settings, from_units, running
from kafka_natmap_system import Refusal

NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
EXECUTOR = "yarn.nodemanager.container-executor.class"
LINUX = "yarn.nodemanager.linux-container-executor."
LOCAL_USER = LINUX + "nonsecure-mode.local-user"
LIMIT_USERS = LINUX + "nonsecure-mode.limit-users"
AUTHENTICATION = "hadoop.security.authentication"
RUNTIMES = "yarn.nodemanager.runtime.linux.allowed-runtimes"
NETWORKS = "yarn.nodemanager.runtime.linux.docker.allowed-container-networks"
CFG = "container-executor.cfg"
# Of container-executor.c: who may not run containers where its file does not say, and from which uid on others may.
BANNED = "yarn,mapred,hdfs,bin"
MIN_UID = 1000
LAST_UID = 4294967294
_BY_HAND = "name users, groups or a uid_range in the scope"


def discovered():
    """{"users", "uid_ranges", "found": [why], "notices": [text], "refusal": None or {"cause", "mend"}}."""
    answer = {"users": [], "uid_ranges": [], "found": [], "notices": [], "refusal": None}
    try:
        for daemon, settings in _managers(answer["notices"]):
            _add(answer, daemon, settings)
    except Refusal as refusal:
        answer["refusal"] = {"cause": refusal.cause, "mend": refusal.mend}
    return answer


def _managers(notices):
    """Each NodeManager of this node with its settings: those that run, else those that a unit would start."""
    daemons, elsewhere = running(NODE_MANAGER)
    if elsewhere and not daemons:
        raise Refusal(
            "the NodeManager runs in a network namespace of its own, which rules of this host do not reach",
            "manage that container as a node, or take this host out of yarn_nodes",
        )
    if not daemons:
        daemons = from_units("nodemanager")
        if daemons:
            notices.append("no NodeManager runs here now; its user and settings are those of its unit")
    if not daemons:
        raise Refusal(
            "no NodeManager runs here and no unit starts one, so whose processes are containers cannot be known",
            "start the NodeManager, or " + _BY_HAND,
        )
    for daemon in daemons:
        settings = Settings(daemon)
        if not settings.file("yarn-site.xml"):
            raise Refusal(
                "the NodeManager's yarn-site.xml was not found in %s" % ", ".join(settings.folders),
                "set HADOOP_CONF_DIR for the NodeManager, or " + _BY_HAND,
            )
        notices += [
            "%s was changed after the NodeManager was started, which still runs by what it said before" % path
            for path in settings.changed_since_start()
        ]
        yield daemon, settings


def _add(answer, daemon, settings):
    executor = settings.get(EXECUTOR, "DefaultContainerExecutor")
    kind = executor.rpartition(".")[2]
    said = "%s is %s (%s)" % (EXECUTOR, kind, settings.source(EXECUTOR))
    if kind == "DefaultContainerExecutor":
        _keep(answer, [daemon.user], [], "containers run as the NodeManager's user %s: %s" % (daemon.user, said))
        return
    if kind != "LinuxContainerExecutor":
        raise Refusal("%s: whose processes its containers are is not known" % said, _BY_HAND)
    _add_linux(answer, settings, said)
    runtimes = {one.strip() for one in settings.get(RUNTIMES, "default").split(",")} - {"default", ""}
    if runtimes:
        answer["notices"].append(
            "containers of runtime %s that have a network of their own do not pass these rules: %s (%s); networks: %s"
            % (
                ", ".join(sorted(runtimes)),
                RUNTIMES,
                settings.source(RUNTIMES),
                settings.get(NETWORKS, "host,none,bridge"),
            )
        )


def _add_linux(answer, settings, said):
    """LinuxContainerExecutor: one local user for everybody, or the submitter's own."""
    secure = settings.get(AUTHENTICATION, "simple").lower() == "kerberos"
    if not secure and settings.flag(LIMIT_USERS, True):
        user = settings.get(LOCAL_USER, "nobody")
        why = "%s, %s is not false and %s is %s (%s)" % (
            said,
            LIMIT_USERS,
            LOCAL_USER,
            user,
            settings.source(LOCAL_USER),
        )
        _keep(answer, [user], [], "containers run as user %s: %s" % (user, why))
        return
    path, limits = executor_limits(settings)
    users, ranges, who = submitters(limits)
    mode = "%s is kerberos (%s)" % (AUTHENTICATION, settings.source(AUTHENTICATION))
    if not secure:
        mode = "%s is false (%s)" % (LIMIT_USERS, settings.source(LIMIT_USERS))
    why = "containers run as who submits them: %s, %s; %s (%s)" % (said, mode, who, path)
    _keep(answer, users, ranges, why)


def _keep(answer, users, ranges, why):
    answer["users"] += [user for user in users if user not in answer["users"]]
    answer["uid_ranges"] += [one for one in ranges if one not in answer["uid_ranges"]]
    answer["found"] += [why] if why not in answer["found"] else []


def submitters(limits):
    """Who may run containers by container-executor.cfg: users by name, uid ranges, and the sentence that says so."""
    text = limits.get("min.user.id", "") or str(MIN_UID)
    if not re.match(r"\d+$", text):
        raise Refusal("min.user.id of %s is %s, which is no number" % (CFG, text), "mend the file, or " + _BY_HAND)
    low = max(int(text), 1)
    banned = _names(limits.get("banned.users", "") or BANNED)
    allowed = [name for name in _names(limits.get("allowed.system.users", "")) if name not in banned + ["root"]]
    users = [name for name in allowed if 0 < (_uid(name) or 0) < low]
    ranges = []
    for uid in sorted({uid for uid in map(_uid, banned) if uid is not None and uid >= low}) + [LAST_UID + 1]:
        if low < uid:
            ranges.append([low, uid - 1])
        low = uid + 1
    who = "min.user.id %s, banned.users %s, allowed.system.users %s" % (
        text,
        ",".join(banned),
        ",".join(allowed) or "none",
    )
    return users, ranges, who


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()]


def _uid(name):
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def executor_limits(settings):
    """container-executor.cfg: its path, and its settings before any section."""
    tried = list(_cfg_places(settings))
    path = next((one for one in tried if os.path.isfile(one)), None)
    if path is None:
        raise Refusal("%s was not found at %s" % (CFG, ", ".join(tried)), _BY_HAND)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            lines = [line.partition("#")[0].strip() for line in stream]
    except OSError as error:
        raise Refusal("%s cannot be read: %s" % (path, error.strerror), _BY_HAND) from None
    first_section = next((at for at, line in enumerate(lines) if line.startswith("[")), len(lines))
    pairs = [line.partition("=") for line in lines[:first_section] if "=" in line]
    return path, {key.strip(): value.strip() for key, _, value in pairs}


def _cfg_places(settings):
    """Where the file can be: the path that is compiled into the program comes first, since it reads no other."""
    daemon = settings.daemon
    home = daemon.environment.get("HADOOP_YARN_HOME") or daemon.environment.get("HADOOP_HOME") or ""
    program = settings.get(LINUX + "path", os.path.join(home, "bin/container-executor"))
    if os.path.isabs(program) and os.path.isfile(daemon.path(program)):
        real = os.path.realpath(daemon.path(program))
        with open(real, "rb") as stream:
            inside = re.findall(rb"[\x20-\x7e]*/%s" % CFG.encode(), stream.read(64 << 20))
        for found in inside:
            beside = os.path.join(os.path.dirname(real), found.decode())
            yield daemon.path(found.decode()) if found.startswith(b"/") else os.path.normpath(beside)
    for folder in settings.folders:
        yield os.path.join(folder, CFG)
