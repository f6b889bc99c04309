"""What every part of the node program needs of the system: programs, files, the lock, the record."""

import array
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time

LIBEXEC = "/usr/libexec/kafka-natmap"
PROGRAM = LIBEXEC + "/kafka-natmap.pyz"
ETC = "/etc/kafka-natmap"
LIB = "/var/lib/kafka-natmap"
RUN = "/run/kafka-natmap"
UNITS = "/etc/systemd/system"
HOSTS = "/etc/hosts"


class Refusal(Exception):
    """A request that cannot be carried out; nothing was changed."""

    def __init__(self, cause, mend):
        super().__init__("%s. Mend: %s." % (cause, mend))
        self.cause = cause
        self.mend = mend


class Busy(Refusal):
    """Another switch runs on this node."""


def run(argv, text=None, timeout=60.0):
    """Run a program; its exit code, standard output and standard error."""
    environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    try:
        done = subprocess.run(
            argv,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=timeout,
            env=environment,
        )
    except FileNotFoundError:
        return 127, "", "%s is not installed" % argv[0]
    except subprocess.TimeoutExpired:
        return 124, "", "%s did not end within %.0f s" % (argv[0], timeout)
    return done.returncode, done.stdout, done.stderr


def must(argv, text=None, mend="see the message of the program"):
    """Run a program that has to succeed."""
    code, out, err = run(argv, text)
    if code:
        raise Refusal("%s: %s" % (" ".join(argv[:4]), first_lines(err) or "exit code %d" % code), mend)
    return out


def first_lines(text, count=3):
    """The beginning of a program's message, on one line."""
    return "; ".join(line.strip() for line in text.strip().splitlines()[:count])


def which(name):
    """Where a program is, also where the path of a service leaves out sbin."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin")


def read_text(path):
    """A file's text, or None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def write_text(path, text, mode=0o644, like=None):
    """Replace a file as a whole: either the old or the new text is there, also after a power cut."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".kafka-natmap-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if like:
            found = os.stat(like)
            os.chown(temporary, found.st_uid, found.st_gid)
            os.chmod(temporary, stat.S_IMODE(found.st_mode))
            for name in os.listxattr(like):
                os.setxattr(temporary, name, os.getxattr(like, name))
        else:
            os.chmod(temporary, mode)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unlink(path):
    """Remove a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def read_json(path):
    """A JSON file of ours, or None; a damaged one counts as none, since it was never confirmed."""
    text = read_text(path)
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


@contextlib.contextmanager
def locked(who, wait=30.0):
    """One switch at a time on a node; the second waits, then is told who holds it."""
    os.makedirs(RUN, mode=0o700, exist_ok=True)
    with open(os.path.join(RUN, "lock"), "a+") as stream:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    stream.seek(0)
                    holder = stream.read().strip() or "another run"
                    raise Busy(
                        "the node is being switched by %s" % holder, "wait until it has ended, then run again"
                    ) from None
                time.sleep(0.1)
        stream.seek(0)
        stream.truncate()
        stream.write("%s, process %d, since %s" % (who, os.getpid(), now()))
        stream.flush()
        yield


def digest_of(path):
    """The SHA-256 of a file, or None."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return None


def digest_of_texts(texts):
    """One SHA-256 over named texts; a name without a text counts."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()


def owners():
    """Whose generations this node holds."""
    names = sorted(os.listdir(LIB)) if os.path.isdir(LIB) else []
    return [name for name in names if os.path.isdir(os.path.join(LIB, name))]


def now():
    """The time in UTC as of ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def audit(record):
    """Append one line to the node's record; it outlives removal."""
    os.makedirs(LIB, mode=0o755, exist_ok=True)
    line = json.dumps(dict({"time": now()}, **record), sort_keys=True) + "\n"
    descriptor = os.open(os.path.join(LIB, "audit.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def immutable(path):
    """Whether the file system flag +i is set (ioctl_iflags(2))."""
    flags = array.array("L", [0])
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.ioctl(descriptor, 0x80086601, flags, True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(flags[0] & 0x10)


def writable(folder):
    """Whether a file can be made in this folder, by making one."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        handle, path = tempfile.mkstemp(prefix=".kafka-natmap-", dir=folder)
    except OSError:
        return False
    try:
        os.write(handle, b"\0" * 4096)
        os.fsync(handle)
    except OSError:
        return False
    finally:
        os.close(handle)
        unlink(path)
    return True
