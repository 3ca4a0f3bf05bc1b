"""The daemons as modules: `python -P -m services.node` has the role that NODE_ROLE says; `services.coordinator`,
`services.worker` and `services.judge` have their own; `services.workers` runs several workers.

Without `-P` Python looks for this package in the working folder first, and what lies there by its name is run. What is
imported after that is not: the folder leaves the import path here, before anything of ours is looked for.
"""

import os
import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    _here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if os.path.realpath(sys.path[0]) != _here:  # in a clone `swarm` lies beside this package
        del sys.path[0]
