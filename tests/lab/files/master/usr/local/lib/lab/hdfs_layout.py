"""Create the folders that jobs expect on HDFS; exits non-zero while the NameNode does not take them yet."""

import sys
import urllib.error
import urllib.request

FOLDERS = {
    "/tmp": ("hdfs", "1777"),
    "/tmp/logs": ("yarn", "1777"),
    "/checkpoints": ("hdfs", "1777"),
    "/user": ("hdfs", "755"),
    "/user/yarn": ("yarn", "755"),
    "/user/etl": ("etl", "755"),
    "/user/alice": ("alice", "755"),
    "/user/root": ("root", "755"),
}


def put(path: str, operation: str) -> None:
    url = f"http://master:9870/webhdfs/v1{path}?user.name=hdfs&op={operation}"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()


try:
    for path, (owner, mode) in FOLDERS.items():
        put(path, f"MKDIRS&permission={mode}")
        put(path, f"SETPERMISSION&permission={mode}")
        put(path, f"SETOWNER&owner={owner}")
except (urllib.error.URLError, OSError) as error:
    sys.exit(f"{path}: {error}; trying again")
