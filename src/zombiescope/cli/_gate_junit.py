"""The gate's report as JUnit XML, which every CI system shows: one test a rule.

An objection is a failure; what could not be read is an error, since that test could not run; a rule that was left
out is skipped. Written to what Jenkins' schemas allow, the old (junit-4.xsd) and the new (junit-10.xsd).
"""

from __future__ import annotations

from typing import TextIO
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from zombiescope.cli._gate_report import Report
from zombiescope.gate._objection import Objection, Ruling


def write(report: Report, out: TextIO) -> None:
    states = [ruling.state for ruling in report.rulings]
    counts = {"tests": len(states), "failures": states.count("fail"), "errors": states.count("blind")}
    attributes = {name: str(value) for name, value in counts.items()}
    suites = Element("testsuites", {"name": "zombiescope gate", **attributes})
    suite = SubElement(suites, "testsuite", {"name": "zombiescope gate", **attributes})
    suite.set("skipped", str(states.count("skipped")))
    suite.set("timestamp", f"{report.at:%Y-%m-%dT%H:%M:%S}")
    suite.set("time", f"{report.seconds:.1f}")
    about = {"target": report.target, "occasion": report.occasion, "system": report.system}
    properties = SubElement(suite, "properties")
    for name, value in {**about, "kernels": ", ".join(report.kernels), "verdict": report.verdict}.items():
        SubElement(properties, "property", {"name": name, "value": value})
    for ruling in report.rulings:
        _case(suite, ruling)
    indent(suites)
    print('<?xml version="1.0" encoding="UTF-8"?>', tostring(suites, encoding="unicode"), sep="\n", file=out)


def _case(suite: Element, ruling: Ruling) -> None:
    case = SubElement(suite, "testcase", {"classname": "zombiescope.gate", "name": ruling.rule})
    closing = [it for it in ruling.objections if it.level == "error" and it.accepted is None]
    if closing:
        more = f" (and {len(closing) - 1} more)" if len(closing) > 1 else ""
        failure = SubElement(case, "failure", {"type": ruling.rule, "message": f"{_line(closing[0])}{more}"})
        failure.text = "\n".join(line for it in closing for line in (_line(it), *_below(it)))
    if ruling.unseen:
        unseen = [f"{it.source}: {it.why}" for it in ruling.unseen]
        # A test is either failed or in error, as the counts above have it.
        kind = "system-err" if closing else "error"
        child = SubElement(case, kind, {} if closing else {"type": "blind", "message": unseen[0]})
        child.text = "\n".join(unseen)
    if ruling.state == "skipped":
        SubElement(case, "skipped").text = ruling.says
    others = [it for it in ruling.objections if it not in closing]
    said = [ruling.says, *(f"{'accepted' if it.accepted else it.level}: {_line(it)}" for it in others)]
    SubElement(case, "system-out").text = "\n".join(said)


def _line(objection: Objection) -> str:
    accepted = objection.accepted
    return f"{objection.subject}: {objection.says}" + (
        f" (until {accepted.expires}: {accepted.reason})" if accepted else ""
    )


def _below(objection: Objection) -> list[str]:
    return [f"  {objection.where}", *(f"  fix: {it}" for it in objection.fix)]
