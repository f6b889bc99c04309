"""The state directory, on any file system that Hadoop knows: small JSON files that are there whole or not at all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tagdata.java import java
from tagdata.trouble import Permanent, Transient, cause


class StateDir:
    """Files of one directory, through the JVM. An unreachable file system raises Transient."""

    def __init__(self, jvm: Any, gateway: Any, uri: str) -> None:
        self.jvm, self.uri = jvm, uri
        self.configuration = java(jvm, "org.apache.hadoop.conf.Configuration")()
        self.root = java(jvm, "org.apache.hadoop.fs.Path")(uri)
        self.open: Callable[[], Any] = lambda: self.root.getFileSystem(self.configuration)
        rename = java(jvm, "org.apache.hadoop.fs.Options").Rename
        self.keep, self.replace = (gateway.new_array(rename, 1) for _ in range(2))
        self.keep[0], self.replace[0] = rename.NONE, rename.OVERWRITE

    def read(self, name: str) -> str | None:
        """A file's text, or None when there is no such file."""
        try:
            stream = self.open().open(self._path(name))
            try:
                text: str = java(self.jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
                return text
            finally:
                stream.close()
        except Exception as error:
            if "FileNotFoundException" in str(error):
                return None
            raise self._away(error) from error

    def load(self, name: str) -> dict[str, Any] | None:
        """A JSON file's content; None when there is no such file."""
        text = self.read(name)
        return None if text is None else json.loads(text)

    def write(self, name: str, content: dict[str, Any] | str) -> None:
        """Put a file there whole, instead of one that may be there."""
        self._put(name, content, self.replace)

    def create(self, name: str, content: dict[str, Any]) -> bool:
        """Put a file there whole, unless there is one: then False."""
        return self._put(name, content, self.keep)

    def delete(self, name: str) -> None:
        try:
            self.open().delete(self._path(name), False)
        except Exception as error:
            raise self._away(error) from error

    def names(self, folder: str = "") -> list[str]:
        """The names of a folder's files; none when there is no such folder."""
        try:
            return [entry.getPath().getName() for entry in self.open().listStatus(self._path(folder))]
        except Exception as error:
            if "FileNotFoundException" in str(error):
                return []
            raise self._away(error) from error

    @cached_property
    def _context(self) -> Any:
        return java(self.jvm, "org.apache.hadoop.fs.FileContext").getFileContext(self.root.toUri(), self.configuration)

    def _path(self, name: str) -> Any:
        return java(self.jvm, "org.apache.hadoop.fs.Path")(f"{self.uri}/{name}" if name else self.uri)

    def _put(self, name: str, content: dict[str, Any] | str, rename: Any) -> bool:
        text = content if isinstance(content, str) else json.dumps(content, indent=1, sort_keys=True) + "\n"
        draft = self._path(f".{name}.{uuid.uuid4()}")
        try:
            stream = self.open().create(draft, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            self._context.rename(draft, self._path(name), rename)
        except Exception as error:
            if "FileAlreadyExistsException" in str(error):
                self.open().delete(draft, False)
                return False
            raise self._away(error) from error
        return True

    def _away(self, error: Exception) -> Exception:
        text = f"state directory {self.uri}: {cause(error)}"
        if "AccessControlException" in str(error) or "Permission denied" in str(error):
            return Permanent("NO_RIGHTS", text, "give the directory to the job's user")
        if "UnsupportedFileSystemException" in str(error):
            return Permanent("STATE_DIR", text, "correct state_dir")
        return Transient(text)
