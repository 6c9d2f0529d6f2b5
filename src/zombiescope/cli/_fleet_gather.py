"""`fleet gather`: hours of recordings that were copied by hand, of nodes that are asked, of a whole cluster."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from zombiescope.cli._fleet_out import write
from zombiescope.core import UserError, harmless
from zombiescope.outputs._exit_codes import BLIND, CLEAR

if TYPE_CHECKING:
    from zombiescope.fleet.gather import Gathered
    from zombiescope.fleet.store import Taking

AT_ONCE = 8  # nodes of a cluster: each is a kubectl of some 50 MB


def gather(args: argparse.Namespace) -> int:
    from zombiescope.agent.settings import token
    from zombiescope.fleet import compaction, store
    from zombiescope.fleet.gather import gather as read
    from zombiescope.fleet.pulling import is_host, pull_all

    if not args.folders and not args.kubernetes:
        raise UserError("give recordings, nodes with an agent, or --kubernetes")
    secret = token(args.token_file, "--token-file") if args.token_file else ""
    where = store.taking(args.store, secret)
    until = time.time() if args.live else float("inf")
    hosts = [it for it in args.folders if is_host(it)]
    folders = [it for it in args.folders if it not in hosts]
    done = read(where, folders, args.label, args.labels, _say, until, clips=args.clips) if folders else []
    done += pull_all(where, hosts, secret, args.ca_file, _say)
    if args.kubernetes:
        done += _from_cluster(where, args.namespace, args.daemonset, _say)
    if not args.live:
        compaction.compact(store.opened(args.store))
    head = ("recording", "node", "hours", "already there", "bytes", "why not")
    rows = [(it.folder, it.node, it.hours, it.there, it.bytes, it.why) for it in done]
    write(args.format, [dict(zip(head, row, strict=True)) for row in rows], head, rows)
    return CLEAR if all(not it.why for it in done) else BLIND


def _from_cluster(store: Taking, namespace: str, daemonset: str, say: Callable[[str], None]) -> list[Gathered]:
    """Through kubectl, so with whatever credentials it has; each agent is asked in its pod, by its own socket.

    Agents are the pods of our DaemonSet in our namespace, and what they answer is data; no token is sent.
    """
    from zombiescope.fleet.gather import Gathered
    from zombiescope.fleet.pulling import pull
    from zombiescope.plugin.forwarding import forwarded
    from zombiescope.plugin.kubectl import Kubectl
    from zombiescope.plugin.pods import Installed, Pod, agents

    kubectl = Kubectl()
    installed = Installed(namespace, daemonset)
    found = agents(kubectl, installed)
    if not found:
        where = f"DaemonSet {installed.daemonset} in namespace {installed.namespace}"
        raise UserError(f"no agent runs in this cluster ({where})")

    def one(node: str, pod: Pod) -> Gathered:
        try:
            with forwarded(kubectl, pod) as url:
                done = pull(store, url, "", None)
        except UserError as error:
            done = Gathered("", why=harmless(str(error)))
        done.folder = harmless(node)
        return done

    done = []
    with ThreadPoolExecutor(AT_ONCE) as several:
        for it in several.map(lambda its: one(*its), found):
            say(f"{it.folder}: " + (it.why or f"{it.node}, {it.hours} hours"))
            done.append(it)
    return done


def _say(line: str) -> None:
    print(line, file=sys.stderr)
