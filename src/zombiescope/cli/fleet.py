"""Many nodes: which are sick, what it costs, and what they have in common that the healthy ones have not.

Nodes send an hour at a time to a store, a folder or a bucket: `agent --ship URL` on each node. `fleet serve` is a
receiver where there is no object storage; `fleet gather` takes recordings that were copied by hand. DuckDB answers
here: pip install 'zombiescope[fleet]'. docs/fleet.md walks through an incident in five commands.
"""

from __future__ import annotations

import argparse
import os

from zombiescope.cli._arguments import FILE, FOLDER, add_output, add_range, add_repeatable, complete
from zombiescope.cli._fleet_out import FORMATS
from zombiescope.cli._fleet_view import add_view, view
from zombiescope.cli._looking import duration, moment
from zombiescope.core import UserError

EXAMPLES = """examples:
  zombiescope fleet status --store s3://bucket/fleet             how many nodes are sick, of what, what it costs
  zombiescope fleet compare --store ./fleet                      what the sick nodes have in common
  zombiescope fleet compare --store ./fleet --sick driver_reset --format json
  zombiescope fleet leaks --store ./fleet                        where cgroups leak, since when, what changed then
  zombiescope fleet jobs --store ./fleet --by zone               which failures are the node's, which the job's own
  zombiescope fleet flame --store ./fleet                        what sick nodes compute that healthy ones do not
  zombiescope fleet view ./fleet --open                          all of it on a page, node by node
  zombiescope fleet flame --store s3://bucket/fleet --ray auto   the same, read by all nodes of a Ray cluster
  zombiescope fleet prove --store ./fleet --treated "pool = 'canary'" --at 2026-03-01T06:00:00
  zombiescope fleet clip --store ./fleet node-17 && zombiescope view node-17.zombiescope
  zombiescope fleet ask --store ./fleet "SELECT zone, count(*) FROM nodes GROUP BY 1"
  zombiescope fleet gather --store ./fleet ./recordings/*        read recordings of many nodes into a store
  zombiescope fleet gather --store ./fleet --token-file T node-1 node-2:9479         ask the nodes' agents
  zombiescope fleet gather --store ./fleet --kubernetes          ask the agents of a cluster, through kubectl
  zombiescope fleet serve --store ./fleet --listen 0.0.0.0:9480 --token-file /etc/zombiescope/fleet.token
  zombiescope fleet gather --live --store s3://bucket/fleet /var/lib/zombiescope    a node's own, by a timer

ZOMBIESCOPE_STORE in the environment stands for --store.
exit codes: 0 nothing found, 1 found, 2 usage, 3 some nodes could not be seen
"""
MOST_HOURS = 24.0 * 366
VERBS = {
    "status": "nodes, how many are sick and of what, what it costs a day",
    "compare": "what sick nodes have in common: causes, and what they explain away",
    "leaks": "where dying cgroups grow, since when, and what changed just before",
    "jobs": "job outcomes by cohort; which failures are the node's",
    "flame": "functions and stacks in which one cohort spends more time than another",
    "view": "a page of all nodes: coloured by harm, what the sick have in common, trends, flames, each node",
    "prove": "did a change help: treated nodes against others, before and after; or plan such a change",
    "clip": "a node's newest clip, as a recording for `view` and `diagnose`",
    "ask": "any SQL over the tables",
    "gather": "read recordings into a store",
    "serve": "take what nodes send, into a store; for those without object storage",
    "compact": "join what nodes have sent into few large files",
    "tidy": "remove what is older than it should be kept, and what nobody names",
}


def add_args(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS))
    made = {name: acts.add_parser(name, help=says, description=says) for name, says in VERBS.items()}
    for name, one in made.items():
        store = os.environ.get("ZOMBIESCOPE_STORE")
        one.add_argument("--store", metavar="URL", default=store, help="a folder, file:///PATH or s3://BUCKET/PREFIX")
        complete(one, store=FOLDER)
        if name != "view":
            one.add_argument("--format", choices=FORMATS, help="output format [a table on a terminal, else tsv]")
            if name != "clip":  # which writes a folder
                add_output(one)
        if name in ("gather", "serve", "compact", "tidy"):
            continue
        one.add_argument(
            "--hours",
            type=duration("hours", MOST_HOURS),
            default=24.0,
            metavar="H",
            help="the last hours that most nodes have sent: a number, or 90m, 7d [24]",
        )
        add_range(one, "start of the range", "end of the range", moment)
    sick = "a sign, or an SQL condition on node_features [whatever harms somebody]"
    for name in ("compare", "jobs", "flame"):
        made[name].add_argument("--sick", metavar="SIGN|SQL", help=f"which nodes are sick: {sick}")
        complete(made[name], sick="signs")
    for name in ("compare", "jobs", "flame", "ask"):
        says = "have a Ray cluster read what is large: HOST:PORT of its head, or auto; this must be one of its nodes"
        made[name].add_argument("--ray", metavar="ADDRESS", default="", help=says)
    price = "price of a core-hour, to give the cost in money"
    for name in ("status", "view"):
        made[name].add_argument("--price", type=_price, metavar="P", help=price)
    add_view(made["view"])
    made["leaks"].add_argument("--least", type=_price, default=1.0, metavar="N", help="growth an hour to list [1]")
    made["jobs"].add_argument("--by", metavar="TRAIT", default="", help="also by zone, image, kernel or a label")
    made["jobs"].add_argument("--csv", metavar="FILE", default="", help="outcomes: node,job,start,end,outcome")
    made["flame"].add_argument("--against", metavar="SQL", help="the other cohort [all nodes that are not sick]")
    made["flame"].add_argument(
        "--folded", metavar="FILE", default="", help="write both cohorts' stacks, for difffolded"
    )
    made["prove"].add_argument("--treated", metavar="SQL", default="", help="condition on nodes that were changed")
    made["prove"].add_argument("--at", type=moment, metavar="T", help="when they were changed")
    made["prove"].add_argument("--measure", metavar="M", default="", help="what must fall [failed things an hour]")
    made["prove"].add_argument("--plan", action="store_true", help="how many nodes, and how long, would show it")
    complete(made["jobs"], csv=FILE)
    complete(made["flame"], folded=FILE)
    made["clip"].add_argument("node", metavar="NODE", help="its name")
    into = "a new folder [NODE.zombiescope]"
    made["clip"].add_argument("-o", "--output", dest="into", metavar="DIR", default="", help=into)
    complete(made["clip"], into=FOLDER)
    made["ask"].add_argument("query", metavar="SQL", help="one statement; tables: see docs/fleet.md")
    made["gather"].add_argument(
        "folders", nargs="*", metavar="DIR|HOST", help="a recording, a folder of recordings, or a node with an agent"
    )
    cluster = "every agent of the cluster that kubectl's current context is"
    made["gather"].add_argument("--kubernetes", action="store_true", help=cluster)
    where = "of the agents, with --kubernetes [zombiescope]"
    made["gather"].add_argument("--namespace", default="zombiescope", help=where)
    made["gather"].add_argument("--daemonset", metavar="NAME", default="zombiescope", help=where)
    made["gather"].add_argument("--labels", metavar="CSV", default="", help="traits: node,zone,image,… one row a node")
    clips = "with each hour a cut of the recording around what harmed most, 1 MB at most"
    made["gather"].add_argument("--clips", action="store_true", help=clips)
    live = "of a recording that goes on: only hours that are over, and leave compaction to others"
    made["gather"].add_argument("--live", action="store_true", help=live)
    made["gather"].add_argument(
        "--token-file", metavar="FILE", default="", help="the word that a collector, or an agent, wants; mode 0600"
    )
    made["gather"].add_argument(
        "--ca-file",
        metavar="FILE",
        default="",
        help="the authority that signed the agents' certificates; asks by https",
    )
    complete(made["gather"], folders=FOLDER, labels=FILE, token_file=FILE, ca_file=FILE)
    serving = made["serve"]
    serving.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:9480", help="where [127.0.0.1:9480]")
    serving.add_argument("--token-file", metavar="FILE", default="", help="the word that nodes must know; mode 0600")
    serving.add_argument("--tls-cert-file", metavar="FILE", default="", help="serve https with this certificate (PEM)")
    serving.add_argument("--tls-key-file", metavar="FILE", default="", help="and this key")
    serving.add_argument(
        "--compact-every",
        type=duration("seconds", 24 * 3600.0, zero=True),
        default=600.0,
        metavar="T",
        help="join what has come, and tidy; 0: never [10m]",
    )
    for one in (serving, made["tidy"]):
        for what, days, says in (("detail", 30, "metrics, hot cores and stacks"), ("summary", 400, "all else")):
            one.add_argument(
                f"--{what}",
                type=duration("days", 10_000),
                default=float(days),
                metavar="T",
                help=f"keep {says} [{days}d]",
            )
    complete(serving, token_file=FILE, tls_cert_file=FILE, tls_key_file=FILE)
    add_repeatable(made["gather"], "--label", "KEY=VALUE", "a trait of all of them")


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli import _fleet_answers, _fleet_clip, _fleet_gather

    args.store = getattr(args, "place", None) or args.store
    if not args.store:
        raise UserError("give --store URL: a folder, file:///PATH or s3://BUCKET/PREFIX")
    if args.verb == "view":
        return view(args)
    place = {"gather": _fleet_gather, "clip": _fleet_clip}.get(args.verb, _fleet_answers)
    answered: int = getattr(place, args.verb)(args)
    return answered


def _price(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to a billion")
    return value
