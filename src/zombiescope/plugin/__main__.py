"""kubectl zombiescope: which nodes starve their work, and why.

Asks kubectl for everything, with its context and credentials. A node is looked at through the agent that runs there;
where none runs, through a pod that is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from zombiescope import __version__
from zombiescope.core import UserError, harmless
from zombiescope.plugin import draining, nodes, plans
from zombiescope.plugin.answers import answer
from zombiescope.plugin.kubectl import FAILED, Kubectl, talk
from zombiescope.plugin.pods import DAEMONSET, NAMESPACE, Installed, Pod, agent, check_node, debug_pod
from zombiescope.plugin.recording import copied
from zombiescope.plugin.viewing import view

RECORDING = "/var/lib/zombiescope"
LAST = "10m"  # of it: as far back as each look of the agent goes
SECONDS = 10  # of a look where no agent has recorded anything
PATIENCE = 300.0  # seconds more, on a node that starves its work
FORMAT = "a page is made here, of a copy: kubectl zombiescope record NODE, then zombiescope diagnose DIR --format html"
EXAMPLES = """examples:
  kubectl zombiescope nodes                        every node: starved or not, the root cause, since when
  kubectl zombiescope diagnose NODE                what its agent saw in the last ten minutes, and the chain
  kubectl zombiescope diagnose NODE --seconds 30   look anew for 30 s; without an agent, this is what it does
  kubectl zombiescope flame NODE > node.folded     what its CPUs did in the last minutes
  kubectl zombiescope view NODE                    the time-travel page of a copy of its recording
  kubectl zombiescope record NODE -o ./rec         copy its recording here, for zombiescope diagnose ./rec
  kubectl zombiescope fix NODE                     what would help, as commands; changes nothing
  kubectl zombiescope fix NODE --apply             the commands of the safe plans, to type on the node
  kubectl zombiescope drain NODE                   move its pods elsewhere, through an agent with that right
  kubectl zombiescope top NODE                     one screen of the live view

exit codes: as zombiescope's own: 0 clear, 1 found, 2 usage or no answer, 3 could not look
"""


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    chosen = [f"--{name}={value}" for name in ("context", "kubeconfig") if (value := getattr(args, name))]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))  # so that a pod of ours is removed
    try:
        return _run(args, Kubectl(chosen))
    except UserError as error:
        print(f"kubectl zombiescope: {harmless(str(error))}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kubectl zombiescope",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zombiescope {__version__}")
    parser.add_argument("--context", default="", help="kubectl's context [the current one]")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="kubectl's file")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listed = verbs.add_parser("nodes", help="every node in one table")
    listed.add_argument("-o", "--output", choices=("table", "json"), default="table")
    for verb, says in (
        ("diagnose", "look at a node and print the chain"),
        ("fix", "what would help, as commands; changes nothing"),
        ("record", "copy its recording to this machine; without an agent, record now"),
    ):
        one = verbs.add_parser(verb, help=says)
        _add_place(one)
        says = "how long to record [10]" if verb == "record" else "look anew, for so long [what the agent has recorded]"
        one.add_argument("--seconds", type=_seconds, help=says)
        one.add_argument("--image", default=f"zombiescope:{__version__}", help="of the pod, where no agent runs")
        one.add_argument("--pod-namespace", default="default", metavar="NAMESPACE", help="of that pod [default]")
        if verb == "record":
            one.add_argument("-o", "--output", metavar="DIR", help="a new folder [NODE.zombiescope]")
        if verb == "fix":
            says = "print the commands of the safe plans alone: as they are typed on the node, by root"
            one.add_argument("--apply", action="store_true", help=says)
            says = "with --apply: if a reboot is planned, drain the node through its agent (variant remediate)"
            one.add_argument("--allow-disruptive", action="store_true", help=says)
        if verb == "diagnose":
            one.add_argument("--format", choices=("text", "json"), default="text", help=FORMAT)
    for verb, says in (
        ("flame", "a flame graph of its recording, in folded form"),
        ("top", "one screen of the live view of its recording"),
        ("view", "the time-travel page of a copy of its recording, by the zombiescope of this machine"),
        ("drain", "cordon it and evict its pods as their disruption budgets allow"),
    ):
        one = verbs.add_parser(verb, help=says + "; needs the agent" + (", variant remediate" * (verb == "drain")))
        _add_place(one)
        if verb == "drain":
            one.add_argument("--undo", action="store_true", help="uncordon it, if this command had cordoned it")
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node")
    says = "where the agents run; a pod elsewhere is none, whatever its labels"
    parser.add_argument("--namespace", "-n", default=NAMESPACE, help=f"{says} [{NAMESPACE}]")
    says = "whose pods they are, and the name of its service account"
    parser.add_argument("--daemonset", default=DAEMONSET, metavar="NAME", help=f"{says} [{DAEMONSET}]")


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return int(text)


def _run(args: argparse.Namespace, kubectl: Kubectl) -> int:
    if args.verb == "nodes":
        return nodes.run(kubectl, args.output)
    check_node(kubectl, args.node)
    installed = Installed(args.namespace, args.daemonset)
    pod = agent(kubectl, installed, args.node)
    if args.verb in ("diagnose", "fix", "record"):
        act = _recorded if args.verb == "record" else _looked
        if pod is not None:
            return act(args, kubectl, pod)
        with debug_pod(kubectl, args.node, args.image, args.pod_namespace) as pod:
            return act(args, kubectl, pod)
    if pod is None:
        where = f"DaemonSet {installed.daemonset} in namespace {installed.namespace}"
        raise UserError(f"no agent runs on {args.node} ({where}), and {args.verb} needs one")
    if args.verb == "drain":
        return (draining.undone if args.undo else draining.drained)(kubectl, pod, args.node)
    if args.verb == "view":
        return view(kubectl, pod, args.node, RECORDING)
    if args.verb == "top":
        return kubectl.passed_on(*pod.run("top", "--recording", RECORDING))
    return kubectl.passed_on(*pod.run("flame", RECORDING, "--format", "folded"))


def _looked(args: argparse.Namespace, kubectl: Kubectl, pod: Pod) -> int:
    if pod.ours or args.seconds:
        seconds = args.seconds or SECONDS
        look: tuple[str, ...] = ("diagnose", "--host", "/host", "--seconds", str(seconds))
        talk(f"looking at {args.node} for {seconds} s")
    else:
        look, seconds = ("diagnose", RECORDING, "--last", LAST), 0
        talk(f"what the agent on {args.node} saw in the last minutes; --seconds {SECONDS} looks anew")
    if args.verb == "diagnose" and args.format == "text":
        return kubectl.passed_on(*pod.run(*look, "--format", "text"))
    code, out, complaint = kubectl.answer(*pod.run(*look, "--format", "json"), seconds=seconds + PATIENCE)
    told = answer(out.decode("utf-8", "replace"), args.node, complaint)
    if args.verb == "diagnose":
        print(json.dumps(told, indent=1))
        return code
    print(*(plans.as_script(told, args.node) if args.apply else plans.in_words(told)), sep="\n", flush=True)
    if args.apply and args.allow_disruptive and draining.planned(told):
        if pod.ours:
            raise UserError(f"no agent runs on {args.node}: a drain needs the one of the variant remediate")
        return draining.drained(kubectl, pod, args.node)
    return code


def _recorded(args: argparse.Namespace, kubectl: Kubectl, pod: Pod) -> int:
    """The agent's recording; a pod of ours has none, so it records first."""
    place = Path(args.output or f"{args.node}.zombiescope")
    if os.path.lexists(place):
        raise UserError(f"{place} is there already")
    folder, seconds = RECORDING, args.seconds or SECONDS
    if pod.ours:
        folder = "/tmp/recording"
        talk(f"recording {args.node} for {seconds} s")
        told = kubectl.passed_on(*pod.run("record", folder, "--host", "/host", "--for", f"{seconds}s"))
        if told:
            raise UserError(f"{args.node} could not be recorded: exit code {told}")
    talk(f"copying the recording of {args.node}")
    talk(f"{copied(kubectl, pod, folder, place) / 1e6:,.1f} MB")
    print(harmless(str(place), most=4096))
    return 0


if __name__ == "__main__":
    sys.exit(main())
