"""Which nodes are sick: by a sign found on them, by a condition of yours, or by anything that harms somebody."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from zombiescope.core import UserError, harmless
from zombiescope.fleet.chance import Bools
from zombiescope.fleet.features import make_features
from zombiescope.fleet.reading import Fleet
from zombiescope.members.rooms import names

HARMS = "('root', 'effect', 'unexplained')"  # roles of findings that harm somebody
USUAL = 0.1  # of the sick nodes have it: who cannot see it is not known to be healthy


@dataclass(frozen=True, slots=True)
class Sickness:
    sick: Bools
    known: Bools  # sick, or seen to be healthy; others are blind to it
    says: str


def sickness(fleet: Fleet, nodes: list[int], asked: str | None) -> Sickness:
    """`asked`: a sign, an SQL condition on `node_features`, or None for whatever harms somebody."""
    if asked is None:
        query = f"SELECT DISTINCT node_id FROM findings WHERE role IN {HARMS}"
        says = "something that harms somebody was found"
    elif re.fullmatch(r"\w+", asked):
        if asked not in names("signs") and not fleet.rows("SELECT 1 FROM findings WHERE sign = ? LIMIT 1", [asked]):
            raise UserError(f"{harmless(asked)}: no such sign; see `zombiescope explain`, or give an SQL condition")
        query = (
            f"SELECT DISTINCT node_id FROM findings WHERE sign = '{asked}' AND role IN {HARMS} "
            f"UNION SELECT DISTINCT node_id FROM events WHERE kind = '{asked}'"
        )
        says = f"{asked} was found"
    else:
        make_features(fleet)
        query = f"SELECT node_id FROM node_features WHERE {asked}"
        says = harmless(asked)
    ill = {it[0] for it in fleet.rows(query)}
    sick = np.array([node in ill for node in nodes], np.bool_)
    return Sickness(sick, sick | ~_blind(fleet, nodes, asked, ill), says)


def _blind(fleet: Fleet, nodes: list[int], asked: str | None, ill: set[int]) -> Bools:
    """Nodes that could not check what the sick nodes have."""
    if asked is not None and not re.fullmatch(r"\w+", asked):
        return np.zeros(len(nodes), np.bool_)
    rows = fleet.rows(f"SELECT sign, count(DISTINCT node_id) FROM findings WHERE role IN {HARMS} GROUP BY 1")
    signs = [asked] if asked else [sign for sign, many in rows if many >= USUAL * len(ill)]
    unseen = {
        it[0]
        for it in fleet.rows(
            "SELECT node_id FROM node_hours GROUP BY 1 HAVING bool_and(list_has_any(coalesce(blind, []), ?))", [signs]
        )
    }
    return np.array([node in unseen for node in nodes], np.bool_)
