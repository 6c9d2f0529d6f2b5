"""Cordon, drain or uncordon a node, as a separate command.

    python -m zombiescope.kubernetes.drain_command cordon|drain|uncordon NODE [SECONDS]

The way to the API server: the file that KUBECONFIG names, ~/.kube/config, or the service account of the pod.
Exit codes: 0 done, 1 pods are left or the server refused, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import sys

from zombiescope.core import UserError
from zombiescope.kubernetes import kubeconfig
from zombiescope.kubernetes.access import Access, in_cluster
from zombiescope.kubernetes.client import Client, Refused
from zombiescope.kubernetes.drain import NotDrained, cordon, drain, uncordon
from zombiescope.kubernetes.node_report import node_name

PATIENCE = 540.0  # seconds: a step of a fix may take ten minutes


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="drain_command", description=__doc__)
    parser.add_argument("what", choices=("cordon", "drain", "uncordon"))
    parser.add_argument("node")
    parser.add_argument("seconds", type=float, nargs="?", default=PATIENCE)
    args = parser.parse_args(argv)
    try:
        client, node = Client(access()), node_name(args.node)
        if args.what == "drain":
            drain(client, node, args.seconds, lambda says: print(says, flush=True))
        else:
            print(cordon(client, node) if args.what == "cordon" else uncordon(client, node))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except (Refused, NotDrained) as error:
        rights = isinstance(error, Refused) and error.status == 403
        print(error, *("(an agent has this right in the variant remediate alone)",) * rights, file=sys.stderr)
        return 1
    return 0


def access() -> Access:
    named = os.environ.get("KUBECONFIG", "").split(":")[0]
    own = os.path.join(os.environ.get("HOME", "/root"), ".kube", "config")
    if named or os.path.exists(own):
        return kubeconfig.access(named or own)
    return in_cluster()


if __name__ == "__main__":
    sys.exit(main())
