"""Reports of changed files (inotify(7)). A folder is watched, so that a file that is replaced by rename is seen too."""

import ctypes
import errno
import os
import struct

# Written, its mode changed, moved away or here, made, gone; and the folder itself gone.
_MASK = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400
_ONLY_FOLDER = 0x01000000
_OVERFLOW = 0x4000
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC


class Files:
    """Files to be told of; :raises OSError: where the kernel has no watch left (fs.inotify.max_user_watches)."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        self.folders = {}
        if self.descriptor < 0:
            raise _error("inotify")

    def add(self, folder):
        """Watch one folder; one that does not exist is watched once it is there and added again."""
        number = self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _MASK | _ONLY_FOLDER)
        if number >= 0:
            self.folders[number] = folder
        elif ctypes.get_errno() not in (errno.ENOENT, errno.ENOTDIR):
            raise _error(folder)

    def fileno(self):
        """For poll(2)."""
        return self.descriptor

    def read(self):
        """(paths, lost): what has changed, and whether the kernel had to drop some."""
        paths, lost = set(), False
        while True:
            try:
                data = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return paths, lost
            for number, mask, name in parse(data):
                lost = lost or bool(mask & _OVERFLOW)
                if number in self.folders:
                    paths.add(os.path.join(self.folders[number], name) if name else self.folders[number])

    def close(self):
        """Hear no more."""
        os.close(self.descriptor)


def parse(data):
    """(number of the watch, what happened, name) of each event in what was read."""
    offset = 0
    while offset + 16 <= len(data):
        number, mask, _, length = struct.unpack_from("iIII", data, offset)
        name = data[offset + 16 : offset + 16 + length].rstrip(b"\0")
        yield number, mask, os.fsdecode(name)
        offset += 16 + length


def _error(what):
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
