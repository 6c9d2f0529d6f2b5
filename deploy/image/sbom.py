"""What an image consists of, as CycloneDX 1.5: run by the image's own Python, so it lists what is really there.

podman run --rm -i --network none --entrypoint python3 IMAGE -I - < deploy/image/sbom.py > zombiescope.cdx.json

Python packages by their metadata, Debian's by dpkg's list. The same image makes the same bytes: no time, no chance.
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

OURS = "zombiescope"
VENV, DPKG = "opt/zombiescope", ("var/lib/dpkg/status", "var/lib/dpkg/status.d/*")


def bill(root: Path) -> dict[str, Any]:
    """Of all that is below a root."""
    python = sorted(_python(root), key=lambda it: str(it["bom-ref"]))
    debian = sorted(_debian(root), key=lambda it: str(it["bom-ref"]))
    if not python:
        raise SystemExit(f"{root}: no Python package of ours is there")
    own = next((it for it in python if it["name"] == OURS), python[0])
    parts = [*python, *debian]
    unseen = (
        [] if debian else [{"name": "zombiescope:unseen", "value": "system packages: the image has no list of them"}]
    )
    image = {"type": "container", "bom-ref": "image", "name": OURS, "version": own["version"]}
    content = json.dumps(parts, sort_keys=True).encode()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(content).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {"component": image, **({"properties": unseen} if unseen else {})},
        "components": parts,
        "dependencies": [{"ref": "image", "dependsOn": [it["bom-ref"] for it in parts]}],
    }


def _python(root: Path) -> Iterator[dict[str, Any]]:
    folders = [str(it) for it in root.glob(f"{VENV}/lib/python3*/site-packages")]
    for found in distributions(path=folders):
        about = found.metadata
        name = re.sub(r"[-_.]+", "-", str(about["Name"])).lower()
        yield _component(f"pkg:pypi/{quote(name)}@{quote(found.version)}", name, found.version) | _licence(found)


def _licence(found: Distribution) -> dict[str, Any]:
    """By SPDX expression where the package says one, else in its own words."""
    about = found.metadata
    if expression := about.get("License-Expression"):
        return {"licenses": [{"expression": str(expression)}]}
    words = str(about.get("License") or "").strip().split("\n")[0]
    classes = [it.rpartition(" :: ")[2] for it in about.get_all("Classifier") or () if it.startswith("License ::")]
    named = words if 0 < len(words) <= 80 else next(iter(classes), "")
    return {"licenses": [{"license": {"name": named}}]} if named else {}


def _debian(root: Path) -> Iterator[dict[str, Any]]:
    lists = [file for pattern in DPKG for file in root.glob(pattern) if file.is_file() and file.suffix != ".md5sums"]
    for text in (file.read_text(encoding="utf-8", errors="replace") for file in lists):
        for paragraph in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
            if fields.get("Package") and fields.get("Version") and _installed(fields.get("Status", "")):
                name, version = fields["Package"], fields["Version"]
                at = f"?arch={quote(fields.get('Architecture', 'all'))}"
                yield _component(f"pkg:deb/debian/{quote(name)}@{quote(version)}{at}", name, version)


def _installed(status: str) -> bool:
    """Unpacked counts: its files are there. A list without states has only what is there."""
    return not status or status.split()[-1] not in ("not-installed", "config-files")


def _component(where: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": where, "name": name, "version": version, "purl": where}


if __name__ == "__main__":
    json.dump(bill(Path(sys.argv[1] if len(sys.argv) > 1 else "/")), sys.stdout, indent=1, sort_keys=True)
    print()
