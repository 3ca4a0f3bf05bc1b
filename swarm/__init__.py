"""swarm: post-train small language models together, through nothing but a shared folder (SAPO, arXiv:2509.08721)."""

import os
import sys

__version__ = "0.1.0"

# Without -P, `python -m` puts the working folder first on the import path, where a stranger's torch.py may lie. It goes
# here, so that nothing but a swarm.py could come from there.
_started = next(
    (name for option, name in zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False) if option == "-m"), ""
)
if sys.argv[:1] == ["-m"] and _started.partition(".")[0] == __name__ and not sys.flags.safe_path:
    _here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if os.path.realpath(sys.path[0]) != _here:  # a clone that nobody has installed is found there alone
        del sys.path[0]
