"""A kubeconfig: the server, the certificates and the token of one context."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from zombiescope.core import Host, Unparsable, Unreadable, UserError
from zombiescope.kubernetes import plain_yaml
from zombiescope.kubernetes.access import Access, Kept

MOST = 4 << 20  # bytes; one with a hundred clusters has a fraction of it


def access(path: str, context: str = "") -> Access:
    """Of a context, or the current one. A UserError says what is missing or cannot be used."""
    try:
        told = plain_yaml.loads(Host().read(path, most=MOST), path)
    except Unparsable as error:  # its text may be a token or a key
        raise UserError(
            f"{path}: line {error.line} is not understood; `kubectl config view --raw` writes it anew"
        ) from None
    except Unreadable as error:
        raise UserError(str(error)) from None
    if not isinstance(told, dict):
        raise UserError(f"{path}: not a kubeconfig")
    name = context or str(told.get("current-context") or "")
    if not name:
        raise UserError(f"{path}: no current-context")
    chosen = _named(told, "contexts", "context", name, path)
    cluster = _named(told, "clusters", "cluster", str(chosen.get("cluster", "")), path)
    user = _named(told, "users", "user", str(chosen.get("user", "")), path)
    folder = os.path.dirname(os.path.abspath(path))
    if cluster.get("insecure-skip-tls-verify"):
        raise UserError(f"{path}: insecure-skip-tls-verify is refused: anybody could take the server's place")
    if cluster.get("proxy-url"):
        raise UserError(f"{path}: proxy-url is not supported")
    for other in ("exec", "auth-provider", "username"):
        if user.get(other):
            raise UserError(f"{path}: user {other} is not supported: use a service account's token or a certificate")
    certificate = _kept(user, "client-certificate", folder, path)
    key = _kept(user, "client-key", folder, path)
    if bool(certificate) != bool(key):
        raise UserError(f"{path}: client-certificate and client-key belong together")
    file, text = str(user.get("tokenFile") or ""), str(user.get("token") or "")
    return Access(
        server=str(cluster.get("server", "")),
        ca=_kept(cluster, "certificate-authority", folder, path),
        token=Kept(file=os.path.join(folder, file)) if file else Kept(text=text),
        certificate=certificate,
        key=key,
        server_name=str(cluster.get("tls-server-name") or ""),
    )


def _named(told: Mapping[str, Any], room: str, kind: str, name: str, path: str) -> Mapping[str, Any]:
    entries = told.get(room)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise UserError(f"{path}: no {kind} named {name!r}")


def _kept(where: Mapping[str, Any], key: str, folder: str, path: str) -> Kept:
    """NAME-data is the content in base64 and comes before NAME, a path, as in kubectl."""
    if data := where.get(f"{key}-data"):
        try:
            return Kept(text=base64.b64decode(str(data), validate=True).decode("ascii"))
        except ValueError:
            raise UserError(f"{path}: {key}-data: not base64 of a PEM text") from None
    file = str(where.get(key) or "")
    return Kept(file=os.path.join(folder, file)) if file else Kept()
