"""The gate's report as SARIF 2.1.0, for code scanning: one result an objection, with the file it is about.

An accepted objection is a suppressed result with its reason; what could not be read is a notification, and the run is
then not successful.
"""

from __future__ import annotations

import json
import os
from typing import Any, TextIO
from urllib.parse import quote

from zombiescope.cli._gate_report import Report
from zombiescope.gate._lists import RULE as BASELINE
from zombiescope.gate._objection import Objection
from zombiescope.members.rooms import load

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ON_THE_BASELINE = "Every accepted objection has a reason and an expiry date that is not past."


def write(report: Report, out: TextIO) -> None:
    from zombiescope import __version__

    rules = [ruling.rule for ruling in report.rulings]
    unseen = [
        {
            "level": "error",
            "message": {"text": f"{it.source}: {it.why}"},
            "associatedRule": {"id": ruling.rule, "index": rules.index(ruling.rule)},
        }
        for ruling in report.rulings
        for it in ruling.unseen
    ]
    run = {
        "tool": {"driver": {"name": "zombiescope", "version": __version__, "rules": [_rule(name) for name in rules]}},
        "invocations": [{"executionSuccessful": not unseen, "toolExecutionNotifications": unseen}],
        "originalUriBaseIds": {"IMAGE": {"description": {"text": f"the root of {report.target}"}}},
        "results": [_result(it, rules.index(it.rule)) for it in report.objections()],
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": report.verdict, "occasion": report.occasion, "system": report.system},
    }
    print(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1), file=out)


def _rule(name: str) -> dict[str, Any]:
    from zombiescope.diagnosis.describe import describe

    if name == BASELINE:
        summary, why, rest = _ON_THE_BASELINE, _ON_THE_BASELINE, _ON_THE_BASELINE
    else:
        words = describe(load("gate", name))
        summary, why = words.summary, words.sections["Why it matters"]
        rest = " ".join(f"{heading}: {text}" for heading, text in words.sections.items())
    return {
        "id": name,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": why[:1].upper() + why[1:]},
        "help": {"text": rest},
        "defaultConfiguration": {"level": "error"},
    }


def _result(objection: Objection, index: int) -> dict[str, Any]:
    fixes = "".join(f"\nfix: {it}" for it in objection.fix)
    accepted = objection.accepted
    return {
        "ruleId": objection.rule,
        "ruleIndex": index,
        "level": objection.level,
        "message": {"text": f"{objection.subject}: {objection.says}{fixes}"},
        "locations": [_location(objection)],
        "partialFingerprints": {"ruleAndSubject/v1": f"{objection.rule}/{objection.subject}"},
        # A suppression without a status counts as accepted; the word for it changed between editions of the schema.
        "suppressions": [
            {"kind": "external", "justification": f"until {it.expires}: {it.reason}"}
            for it in [accepted]
            if it is not None
        ],
    }


def _location(objection: Objection) -> dict[str, Any]:
    """The thing by its name, and its file where it has one."""
    kind, _, name = objection.subject.partition(":")
    location: dict[str, Any] = {"logicalLocations": [{"name": name or kind, "fullyQualifiedName": objection.subject}]}
    if not objection.where.startswith("$ "):
        file: dict[str, Any] = {"uri": quote(os.fsencode(objection.where.lstrip("/")))}
        if objection.where.startswith("/"):
            file["uriBaseId"] = "IMAGE"
        location["physicalLocation"] = {"artifactLocation": file, "region": {"startLine": 1}}
    return location
