"""What axe-core says of a page that is open in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.web.viewer import Viewer

AXE = PROJECT / "page/node_modules/axe-core/axe.min.js"


def serious(viewer: Viewer, part: str = "html") -> list[str]:
    """Faults that axe-core calls serious or critical; the test is skipped where it is not at hand."""
    if not AXE.exists():
        pytest.skip(f"{CANNOT}axe-core comes by npm: make page")
    if not viewer.page.evaluate("() => 'axe' in window"):
        viewer.page.evaluate(AXE.read_text())
    found: dict[str, Any] = viewer.page.evaluate("(part) => axe.run(part, { resultTypes: ['violations'] })", part)
    assert found["passes"] or found["violations"], "it looked"
    return [
        f"{it['id']}: {it['help']}: {[node['target'] for node in it['nodes'][:3]]}"
        for it in found["violations"]
        if it["impact"] in ("serious", "critical")
    ]
