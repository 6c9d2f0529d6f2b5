"""How we start programs, our own modules among them: neither the caller's working directory nor environment decides.

`python -m` looks in the working directory first: `fix`, run as root in /tmp, would import a stranger's numpy.py. So our
own modules run by this file with `-I`, and every program starts in / and gets only the variables named here.
"""

from __future__ import annotations

import os
import sys

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"  # only root writes to these
FOLDER = "/"  # where programs start
# The way to the API server of a cluster, on a node and in a pod; the bus: which systemd is meant.
CLUSTER = ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
PASSED = ("LANG", "TERM", "NO_COLOR", "DBUS_SYSTEM_BUS_ADDRESS", *CLUSTER)
OURS = "ZOMBIESCOPE_"
STORES = ("AWS_", "GOOGLE_", "AZURE_")  # for those who write to a bucket: its credentials, region, endpoint


def environment(*more: str) -> dict[str, str]:
    """The environment of a program that we start. `more`: beginnings of names that it needs too."""
    kept = {name: value for name, value in os.environ.items() if name in PASSED or name.startswith((OURS, *more))}
    return kept | {"PATH": PATH}


def own_python(module: str, *argv: str) -> tuple[str, ...]:
    """The command that runs one of our modules."""
    return (sys.executable, "-I", os.path.abspath(__file__), module, *argv)


def _run() -> None:
    import runpy

    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if ours not in sys.path:  # not installed in this Python: a checkout
        sys.path.insert(0, ours)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts a thread for each core otherwise
    module = sys.argv[1]
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
