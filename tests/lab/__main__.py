"""`python3 tests/lab COMMAND`: see `--help`."""

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from lab.cli import main

sys.exit(main())
