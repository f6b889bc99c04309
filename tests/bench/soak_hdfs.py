"""Print a relay's state directory as JSON: {"status": what it says of itself, "files": {path: bytes} of its checkpoint}.

Runs on the NameNode's host; standard library only. The argument is the directory's path on HDFS.
"""

import json
import sys
import urllib.error
import urllib.request
from typing import Any

ROOT = "http://master:9870/webhdfs/v1"


def ask(path: str, operation: str) -> Any:
    """The JSON that HDFS answers, or None where nothing is."""
    try:
        with urllib.request.urlopen(f"{ROOT}{path}?op={operation}&user.name=hdfs", timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def files(path: str) -> dict[str, int]:
    """Every file below a folder."""
    found: dict[str, int] = {}
    for one in ((ask(path, "LISTSTATUS") or {}).get("FileStatuses") or {}).get("FileStatus", []):
        name = f"{path}/{one['pathSuffix']}"
        found.update(files(name) if one["type"] == "DIRECTORY" else {name: one["length"]})
    return found


def main() -> None:
    """Look once."""
    place = sys.argv[1]
    print(json.dumps({"status": ask(f"{place}/status.json", "OPEN"), "files": files(f"{place}/checkpoint")}))


if __name__ == "__main__":
    main()
