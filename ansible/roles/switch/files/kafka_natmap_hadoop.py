"""Hadoop's settings as a daemon of this node reads them, and which daemons run here.

What `org.apache.hadoop.conf.Configuration` does with core-site.xml and yarn-site.xml: the class path's first file of a
name, XInclude, `final`, and ${...} from the daemon's -D options, its environment and the settings themselves.
"""

import glob
import os
import pwd
import re
from xml.etree import ElementTree

from kafka_natmap_system import Refusal, read_text

FILES = ("core-site.xml", "yarn-site.xml")
UNITS = "/etc/systemd/system/*.service /run/systemd/system/*.service /usr/lib/systemd/system/*.service"
FOLDERS = (
    "/etc/hadoop/conf",
    "/etc/hadoop",
    "/etc/hadoop-conf",
    "/opt/hadoop/etc/hadoop",
    "/usr/local/hadoop/etc/hadoop",
    "/usr/lib/hadoop/etc/hadoop",
)
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
_ROUNDS = 20
_DEEPEST = 8
_LARGEST = 8 << 20


class Daemon:
    """A daemon of Hadoop: the process, or the unit that would start it.

    `root` stands before its paths where it has a file system of its own; `since` is its start in seconds of the epoch.
    """

    def __init__(self, user, arguments=(), environment=None, root="", place="/", since=None):
        self.user = user
        self.arguments = list(arguments)
        self.environment = environment or {}
        self.root = root
        self.place = place
        self.since = since

    def folders(self):
        """Where it looks for its files, first one first."""
        entries = self._class_path().split(":")
        entries += [self.environment.get(name, "") for name in ("YARN_CONF_DIR", "HADOOP_CONF_DIR")]
        homes = [self.environment.get(name) for name in ("HADOOP_HOME", "HADOOP_YARN_HOME")]
        entries += [os.path.join(home, "etc/hadoop") for home in homes if home]
        return [self.path(entry) for entry in entries if entry and not entry.endswith((".jar", "*"))]

    def path(self, path):
        """A path of the daemon as seen from here."""
        return self.root + os.path.normpath(os.path.join(self.place, path))

    def _class_path(self):
        for option, value in zip(self.arguments, self.arguments[1:]):
            if option in ("-cp", "-classpath", "--class-path"):
                return value
        return self.environment.get("CLASSPATH", "")

    def properties(self):
        """Java's system properties, as far as settings name them."""
        given = [word[2:].partition("=") for word in self.arguments if word.startswith("-D")]
        return dict({"user.name": self.user}, **{name: value for name, _, value in given})


def running(main_class, proc="/proc"):
    """The daemons of this class in our network namespace, and how many are in another one."""
    here, elsewhere = [], 0
    for number in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        folder = os.path.join(proc, str(number))
        try:
            with open(os.path.join(folder, "cmdline"), "rb") as stream:
                arguments = stream.read().decode("utf-8", "surrogateescape").split("\0")
            if main_class not in arguments[1:]:
                continue
            if _namespace(folder, "net") != _namespace(os.path.join(proc, "self"), "net"):
                elsewhere += 1
                continue
            here.append(_daemon(folder, arguments[: arguments.index(main_class)], proc))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return here, elsewhere


def _namespace(folder, kind):
    return os.readlink(os.path.join(folder, "ns", kind))


def _daemon(folder, arguments, proc):
    with open(os.path.join(folder, "environ"), "rb") as stream:
        words = stream.read().decode("utf-8", "surrogateescape").split("\0")
    with open(os.path.join(folder, "status")) as stream:
        uid = int(re.search(r"^Uid:\s+(\d+)", stream.read(), re.MULTILINE).group(1))
    same = _namespace(folder, "mnt") == _namespace(os.path.join(proc, "self"), "mnt")
    environment = dict(word.partition("=")[::2] for word in words if "=" in word)
    root = "" if same else os.path.join(folder, "root")
    place = os.readlink(os.path.join(folder, "cwd"))
    return Daemon(user_name(uid), arguments, environment, root, place, _started(folder, proc))


def _started(folder, proc):
    """When a process was started: ticks since boot, and when that was (proc(5))."""
    ticks = int((read_text(os.path.join(folder, "stat")) or "").rpartition(")")[2].split()[19])
    boot = int(re.search(r"^btime (\d+)", read_text(os.path.join(proc, "stat")) or "", re.MULTILINE).group(1))
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def user_name(uid):
    """The name of a uid, or its number as text where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def from_units(word, patterns=UNITS):
    """The daemons that units whose names hold this word would start: their user and environment (systemd.exec(5))."""
    found = []
    for path in sorted(path for pattern in patterns.split() for path in glob.glob(pattern)):
        if word not in os.path.basename(path).lower():
            continue
        text = read_text(path) or ""
        user = re.search(r"^User=(\S+)\s*$", text, re.MULTILINE)
        files = re.findall(r"^EnvironmentFile=-?(\S+)\s*$", text, re.MULTILINE)
        lines = re.findall(r"^Environment=(.*)$", text, re.MULTILINE) + [read_text(name) or "" for name in files]
        pairs = re.findall(r"(?m)(?:^|[\s\"'])([A-Z_]+)=[\"']?([^\"'\s]*)", "\n".join(lines))
        found.append(Daemon(user.group(1) if user else "root", environment=dict(pairs)))
    return found


class Settings:
    """core-site.xml and yarn-site.xml of one daemon, or of the usual places where there is none."""

    def __init__(self, daemon=None, folders=FOLDERS):
        self.daemon = daemon or Daemon("")
        self.folders = self.daemon.folders()
        if self.file("yarn-site.xml") is None:
            self.folders += map(self.daemon.path, folders)
        self.sources = {}
        self._values = {}
        self._final = set()
        self.files = [path for name in FILES for path in [self.file(name)] if path]
        for path in self.files:
            self._load(path, 0)

    def file(self, name):
        """The first file of this name on the class path, or None."""
        return next((p for folder in self.folders for p in [os.path.join(folder, name)] if os.path.isfile(p)), None)

    def changed_since_start(self):
        """The files that were written after their daemon was started: it does not know what they say now."""
        since = self.daemon.since
        return [path for path in self.files if since is not None and os.path.getmtime(path) > since + 1]

    def get(self, name, default=""):
        """A setting with its variables filled in."""
        value = self._filled(self._values.get(name, default))
        if _VARIABLE.search(value):
            raise Refusal(
                "%s is %s in %s, and what that stands for cannot be known here" % (name, value, self.source(name)),
                "name users, groups or a uid_range in the scope",
            )
        return value.strip()

    def flag(self, name, default):
        """A setting of yes and no: anything but true and false stands for the default."""
        return {"true": True, "false": False}.get(self.get(name).lower(), default)

    def source(self, name):
        """Where a setting stands: its file, or the default."""
        return self.sources.get(name, "Hadoop's default")

    def _load(self, path, depth):
        if depth > _DEEPEST:
            raise Refusal("%s includes itself" % path, "mend the file")
        try:
            with open(path, "rb") as stream:
                top = ElementTree.fromstring(stream.read(_LARGEST))
        except ElementTree.ParseError as error:
            raise Refusal("%s is no XML: %s" % (path, error), "mend the file: Hadoop cannot read it either") from None
        except OSError as error:
            raise Refusal("%s cannot be read: %s" % (path, error.strerror), "name users in the scope") from None
        self._read(top, path, depth)

    def _read(self, top, path, depth):
        for item in top:
            kind = str(item.tag).rpartition("}")[2]
            if kind == "property":
                self._keep(item, path)
            elif kind == "configuration":
                self._read(item, path, depth)
            elif kind == "include":
                self._include(item, path, depth)

    def _keep(self, item, path):
        parts = dict(item.attrib)
        parts.update((child.tag, "".join(child.itertext())) for child in item)
        name, value = parts.get("name", "").strip(), parts.get("value")
        if not name or name in self._final:
            return
        if value is not None:
            self._values[name] = value
            self.sources[name] = path[len(self.daemon.root) :]
        if parts.get("final", "").strip().lower() == "true":
            self._final.add(name)

    def _include(self, item, path, depth):
        reference = item.get("href", "")
        target = self.file(reference)
        if target is None and re.match(r"[a-z]{2,}://", reference):
            raise Refusal("%s includes %s, which is not asked" % (path, reference), "name users in the scope")
        local = reference[5:] if reference.startswith("file:") else reference
        if target is None:
            target = self.daemon.path(local) if os.path.isabs(local) else os.path.join(os.path.dirname(path), local)
        if os.path.isfile(target):
            self._load(target, depth + 1)
            return
        fallback = [child for child in item if str(child.tag).rpartition("}")[2] == "fallback"]
        if not fallback:
            raise Refusal("%s includes %s, which is not there" % (path, reference), "mend the file")
        self._read(fallback[0], path, depth)

    def _filled(self, text):
        for _ in range(_ROUNDS):
            before, text = text, _VARIABLE.sub(self._variable, text)
            if text == before:
                break
        return text

    def _variable(self, found):
        name = found.group(1)
        if name.startswith("env."):
            key, _, default = name[4:].partition("-")
            value = self.daemon.environment.get(key.rstrip(":"))
            if value is None or (key.endswith(":") and not value):
                value = default if "-" in name[4:] else None
        else:
            value = self.daemon.properties().get(name, self._values.get(name))
        return found.group(0) if value is None else value
