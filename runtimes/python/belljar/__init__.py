"""A stateful code context: an IPython shell driven over descriptor 3.

`context` serves one shell until the host closes its end. `zygote` prepares a
shell once and forks contexts from it. The host sends these files as one
message, so nothing has to be installed in the template.
"""

import os
import sys

DESCRIPTOR = 3


def main(role, config):
    os.set_inheritable(DESCRIPTOR, False)
    # `python3 -c` puts the current directory first; isolated mode does not.
    if sys.path[:1] != [""]:
        sys.path.insert(0, "")
    sys.argv = [""]
    if role == "zygote":
        from . import zygote

        zygote.run(config)
    else:
        from . import serve

        serve.run(config)
