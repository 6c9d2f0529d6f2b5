"""The answers of `fleet`, one function for each of its verbs: ask, then write."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zombiescope.cli._fleet_out import write
from zombiescope.core import UserError, amount, harmless, lasting
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND

if TYPE_CHECKING:
    from zombiescope.fleet.reading import Fleet


def opened_fleet(args: argparse.Namespace, elsewhere: Sequence[str] = ()) -> Fleet:
    """`elsewhere`: tables that nobody here needs if a cluster reads them."""
    from zombiescope.fleet import reading, store

    kept = store.opened(args.store)
    if not getattr(args, "ray", ""):
        return reading.opened(kept, args.hours, args.start, args.end)
    from zombiescope.fleet.ray_cluster import RayCluster

    cluster = RayCluster(args.ray)
    return reading.opened(kept, args.hours, args.start, args.end, engine=cluster, elsewhere=elsewhere)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def status(args: argparse.Namespace) -> int:
    from zombiescope.fleet.status import status as ask

    found = ask(opened_fleet(args), args.price)
    money = "" if args.price is None else f", {found['money_a_day']:,.0f} in money"
    span = found["span"]
    says = [
        f"{found['nodes']:,} nodes from {_time(span['start'])} to {_time(span['end'])}: {found['sick']:,} sick, "
        f"{found['blind']:,} with something that could not be checked, {found['silent']:,} silent",
        f"what was found costs {found['core_hours_a_day']:,.0f} core-hours a day{money}",
    ]
    if found["refused_nodes"]:
        says.append(f"{found['refused_nodes']:,} nodes sent something that was left out: see --format json")
    if found["clocks_ahead"]:
        says.append(
            f"{found['clocks_ahead']:,} nodes have a clock that is ahead of the others: their hours are left out"
        )
    if found["more_root_causes"]:
        says.append(f"{found['more_root_causes']:,} more root causes cost less than these")
    head = ("root cause", "on", "nodes", "core-hours a day", "money a day", "broken", "held", "soonest", "trend")
    rows = [
        (
            it["sign"],
            it["subject"],
            it["nodes"],
            it["core_hours_a_day"],
            it["money_a_day"],
            it["broken"],
            amount(it["held_bytes"]),
            None if it["soon_seconds"] is None else lasting(it["soon_seconds"]),
            it["trend"],
        )
        for it in found["root_causes"]
    ]
    write(args.format, found, head, rows, *says)
    return FOUND if found["sick"] else BLIND if found["blind"] else CLEAR


def compare(args: argparse.Namespace) -> int:
    from zombiescope.fleet.compare import compare as ask

    found = ask(opened_fleet(args), args.sick)
    says = [f"{found['sick']:,} of {found['nodes']:,} nodes are sick: {found['sick_means']}"]
    if found["blind"]:
        says.append(f"{found['blind']:,} nodes could not check it: they are left out")
    if not found["causes"] and not found["cannot_tell"]:
        says.append(f"nothing that was recorded separates them from the others ({found['tested']:,} factors and pairs)")
    says += [f"cause: {it['says']}" for it in found["causes"]]
    for it in found["cannot_tell"]:
        says.append(f"cannot tell: {' or '.join(it['factors'])}; {it['would_tell']}")
    says += [f"what happens on them: {it['says']}" for it in found["hot_functions"][:1]]
    head = ("factor", "sick with", "sick without", "healthy with", "odds ratio", "from", "to", "p")
    rows = [
        (
            it["factor"],
            it["sick_with"],
            it["sick_without"],
            it["healthy_with"],
            it["odds_ratio"][1],
            it["odds_ratio"][0],
            it["odds_ratio"][2],
            f"{it['p']:.1e}",
        )
        for it in found["causes"]
    ]
    write(args.format, found, head, rows, *says)
    return FOUND if found["causes"] or found["cannot_tell"] else CLEAR


def leaks(args: argparse.Namespace) -> int:
    from zombiescope.fleet.leaks import leaks as ask

    found = ask(opened_fleet(args), args.least)
    says = [
        f"dying cgroups grow on {len(found['leaking']):,} of {found['nodes']:,} nodes; on {found['onsets']:,} it began "
        "within this range"
    ]
    says += [
        f"just before: {it['change']} at {it['onsets']} of {it['of_onsets']} onsets, else {it['other_hours']:,} times"
        for it in found["changed_before"]
    ]
    head = ("node", "dying", "growth an hour", "began", "trouble in")
    rows = [
        (
            it["node"],
            it["dying"],
            it["growth_per_hour"],
            _time(it["onset"]) or "before this range",
            None if it["soon_seconds"] is None else lasting(it["soon_seconds"]),
        )
        for it in found["leaking"]
    ]
    write(args.format, found, head, rows, *says)
    return FOUND if found["leaking"] else CLEAR


def jobs(args: argparse.Namespace) -> int:
    from zombiescope.fleet.jobs import jobs as ask

    found = ask(opened_fleet(args), args.sick, args.by, args.csv)
    says = [f"{found['failed']:,} of {found['jobs']:,} jobs failed"]
    if found["odds_ratio"]:
        low, best, high = found["odds_ratio"]
        says.append(
            f"the odds to fail are {best:.1f} times as high on a sick node (95 % interval {low:.1f} to {high:.1f}, "
            f"p {found['p']:.1e})"
        )
    says.append(
        f"{found['failed_by_node']:,} failed within a minute of a fault of their node (by chance "
        f"{found['failed_by_node_by_chance']:,}), {found['failed_by_themselves']:,} by themselves, "
        f"{found['failed_unseen']:,} on nodes that could not see"
    )
    head = ("cohort", "jobs", "failed", "success", "from", "to")
    named = [*found["nodes"].items(), *((f"{args.by}={it[args.by]}", it) for it in found["cohorts"])]
    rows = [
        (
            name,
            it["jobs"],
            it["failed"],
            *((it["success"][1], it["success"][0], it["success"][2]) if it["success"] else (None,) * 3),
        )
        for name, it in named
    ]
    write(args.format, found, head, rows, *says)
    return FOUND if found["failed_by_node"] > 2 * found["failed_by_node_by_chance"] + 2 else CLEAR


def flame(args: argparse.Namespace) -> int:
    from zombiescope.fleet.flame import ELSEWHERE, folded
    from zombiescope.fleet.flame import flame as ask

    found = ask(opened_fleet(args, ELSEWHERE), args.sick, args.against)
    if args.folded:
        _file(args.folded, folded(found))
    says = [f"{found['sick']:,} sick nodes against {found['others']:,} others, by the share of their time"]
    more = [it["stack"] for it in found["stacks"][:1] if it["sick"] > it["others"]]
    says += [f"the stack that differs most: {it}" for it in more]
    head = ("function", "sick", "others", "p")
    rows = [(it["function"], it["sick"], it["others"], f"{it['p']:.1e}") for it in found["functions"]]
    write(args.format, found, head, rows, *says)
    return FOUND if found["functions"] else CLEAR


def prove(args: argparse.Namespace) -> int:
    from zombiescope.fleet import proof

    measure = args.measure or proof.USUAL
    if args.plan:
        found = proof.plan(opened_fleet(args), measure)
        says = (
            f"{found['nodes_with_it']:,} nodes have {measure}, {found['per_hour']:.3g} an hour each; to see a fall "
            "to half, nine times in ten, change so many of them and leave as many alone:"
        )
        rows = [(it["hours"], it["treated_nodes"], it["possible"]) for it in found["plans"]]
        write(args.format, found, ("hours", "nodes to change", "there are enough"), rows, says)
        return CLEAR
    if not args.treated or args.at is None:
        raise UserError("give --treated SQL and --at T, or --plan")
    found = proof.prove(opened_fleet(args), args.treated, args.at, measure)
    keys = (
        "treated",
        "controls",
        "before_per_hour",
        "after_per_hour",
        "controls_before_per_hour",
        "controls_after_per_hour",
    )
    write(args.format, found, keys, [tuple(found[it] for it in keys)], found["says"])
    return {"helped": CLEAR, "cannot tell": BLIND}.get(found["verdict"], FOUND)


def ask(args: argparse.Namespace) -> int:
    from zombiescope.fleet.features import make_features

    fleet = opened_fleet(args)
    if "node_features" in args.query:
        make_features(fleet)
    table = fleet.table(args.query)
    rows = table.to_pylist()
    write(args.format, rows, table.column_names, [tuple(it.values()) for it in rows])
    return CLEAR


def compact(args: argparse.Namespace) -> int:
    from zombiescope.fleet import compaction, store

    done = compaction.compact(store.opened(args.store), lambda line: print(line, file=sys.stderr))
    shape = {"hours": done.hours, "parcels": done.parcels, "refused": done.refused, "lost": done.lost}
    write(args.format, shape, tuple(shape), [tuple(shape.values())])
    return CLEAR


def tidy(args: argparse.Namespace) -> int:
    from zombiescope.fleet import retention, store

    keeping = retention.Keeping(summary=args.summary * retention.DAY, detail=args.detail * retention.DAY)
    done = retention.tidy(store.opened(args.store), time.time(), keeping)
    head = ("tables of an hour dropped", "files removed", "parcels removed", "manifests removed")
    row = (done.tables, done.files, done.parcels, done.manifests)
    write(args.format, [dict(zip(head, row, strict=True))], head, [row])
    return CLEAR


def serve(args: argparse.Namespace) -> int:
    from zombiescope.agent.settings import LOOPBACK, address, token
    from zombiescope.fleet import store
    from zombiescope.web import fleet_server
    from zombiescope.web.receiver import application
    from zombiescope.web.server import installed, listening

    installed()
    where = store.opened(args.store)
    host, port = address(args.listen, "--listen")
    if host not in LOOPBACK and not args.token_file:
        raise UserError(f"--listen {args.listen} can be reached from other machines: give --token-file too")
    if bool(args.tls_cert_file) != bool(args.tls_key_file):
        raise UserError("--tls-cert-file and --tls-key-file: give both, or neither")
    secret = token(args.token_file, "--token-file") if args.token_file else ""
    door = listening(host, port)
    shown = f"{host}:{door.getsockname()[1]}"
    print(
        f"takes parcels on http{'s' if args.tls_cert_file else ''}://{shown} into {harmless(where.url)}",
        file=sys.stderr,
    )
    keep = ("--detail", f"{args.detail:g}", "--summary", f"{args.summary:g}")
    app = application(where, secret)
    fleet_server.serve(app, door, where, args.compact_every, keep, args.tls_cert_file, args.tls_key_file)
    return CLEAR


def _file(path: str, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{harmless(path)}: {(error.strerror or str(error)).lower()}") from error
