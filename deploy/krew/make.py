"""Write dist/kubectl-zombiescope (one file, needs Python 3.11 alone), its archive and the krew manifest.

python deploy/krew/make.py URL      where the archive will be found; the same source makes the same bytes
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "zombiescope"
# What the plugin imports of ours: none of it needs a package.
PARTS = (
    *("plugin/*.py", "plugin/*.json", "core/*.py", "places/*.py", "processes/*.py"),
    *("kubernetes/__init__.py", "kubernetes/conditions.py"),
)
OUTPUTS = ("__init__.py", "_exit_codes.py", "_subjects.py")
START = "import sys\nfrom zombiescope.plugin.__main__ import main\nsys.exit(main())\n"
EPOCH = (2020, 1, 1, 0, 0, 0)


def program() -> bytes:
    """A zip that Python runs."""
    files = [SOURCE / "__init__.py", *(SOURCE / "outputs" / name for name in OUTPUTS)]
    files += [file for part in PARTS for file in SOURCE.glob(part)]
    packed = io.BytesIO(b"")
    packed.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", EPOCH), START)
        for file in sorted(files):
            name = f"zombiescope/{file.relative_to(SOURCE)}"
            archive.writestr(zipfile.ZipInfo(name, EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def archive(content: bytes) -> bytes:
    """As krew wants it: the program and the licence in a tar.gz."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, mode, data in (
            ("kubectl-zombiescope", 0o755, content),
            ("LICENSE", 0o644, (PROJECT / "LICENSE").read_bytes()),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def manifest(url: str, packed: bytes, version: str) -> dict[str, object]:
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]},
        "uri": url,
        "sha256": hashlib.sha256(packed).hexdigest(),
        "bin": "kubectl-zombiescope",
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "zombiescope"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Which nodes starve their work, and why",
            "description": "What zombiescope's agents say of each node, and a look at one node. Needs Python 3.11.",
            "platforms": [platform],
        },
    }


def main(argv: list[str]) -> int:
    from zombiescope import __version__

    folder = PROJECT / "dist"
    folder.mkdir(exist_ok=True)
    content = program()
    packed = archive(content)
    (folder / "kubectl-zombiescope").write_bytes(content)
    (folder / "kubectl-zombiescope").chmod(0o755)
    (folder / "kubectl-zombiescope.tar.gz").write_bytes(packed)
    told = manifest(argv[0] if argv else "https://example.invalid/kubectl-zombiescope.tar.gz", packed, __version__)
    (folder / "zombiescope.krew.yaml").write_text(json.dumps(told, indent=2) + "\n")  # JSON is YAML
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
