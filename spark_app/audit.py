"""Compare what the relay should have written with what the sink holds: lost, repeated, reordered and altered records.

`spark-submit … --py-files tagdata.zip --files tagdata.json audit.py tagdata.json`, beside the relay or after it. Records are
matched by their source (cluster, topic, partition, offset), from where the relay began to its last committed batch.
Exit code 0: nothing lost, altered or reordered; 1: something was; 2 to 4: it could not be told.
"""

import sys

# The package may have come as an archive: look for it there first.
sys.path.append(sys.path.pop(0))

from tagdata.audit import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
