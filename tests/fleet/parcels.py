"""Parcels of a few simulated nodes, damaged ones, and stores that have them waiting."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pyarrow as pa

from zombiescope.fleet import store
from zombiescope.fleet.hours import INCOMING, Hour, node_of, of_key
from zombiescope.fleet.parcel import MAGIC, opened
from zombiescope.fleet.simulated.fleet import START, simulate
from zombiescope.fleet.store import Folder

HOUR = Hour(START)


def waiting_store(folder: Path, nodes: int = 12, hours: int = 1, seed: int = 5) -> Folder:
    """Every node's hours as parcels, not compacted."""
    simulate(str(folder), nodes, hours, seed, "incident", every=60, parcels=True)
    found = store.opened(str(folder))
    assert isinstance(found, Folder)
    return found


def keys_of(kept: Folder) -> list[str]:
    return sorted(kept.keys(INCOMING))


def node_in(key: str) -> int:
    parts = of_key(key)
    assert parts is not None
    node = node_of(parts[1])
    assert node is not None
    return node


def tables_in(kept: Folder, key: str) -> dict[str, pa.Table]:
    return opened(kept.read(key))


def headed(body: bytes, sizes: dict[str, int], size: int | None = None) -> bytes:
    """A parcel with this body, and a head that fits to it unless another size is given."""
    squeezed = pa.Codec("zstd").compress(body, asbytes=True)
    digest = hashlib.blake2b(squeezed, digest_size=16).hexdigest()
    head = {"format": MAGIC, "size": len(body) if size is None else size, "tables": sizes, "digest": digest}
    return json.dumps(head).encode() + b"\n" + bytes(squeezed)


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Damage inside the tables, with a head that fits: what a hostile node would send."""
    head, _, body = content.partition(b"\n")
    said = json.loads(head)
    plain = bytearray(pa.Codec("zstd").decompress(body, decompressed_size=said["size"], asbytes=True))
    for _ in range(draw.choice((1, 1, 3, 30))):
        at = draw.randrange(len(plain))
        if draw.random() < 0.7:
            plain[at] = draw.randrange(256)
        else:
            plain[at : at + 8] = draw.choice((b"\xff" * 8, b"\0" * 8, b"\0\0\0\x80\0\0\0\0"))[: len(plain) - at]
    return headed(bytes(plain), said["tables"])
