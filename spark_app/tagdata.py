"""The relay job that runs for months: `spark-submit … --py-files tagdata.zip --files tagdata.json tagdata.py tagdata.json`."""

import sys

# The package has this file's name: look for it beside this folder's files, not in them, where it came as an archive.
sys.path.append(sys.path.pop(0))

from tagdata.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
