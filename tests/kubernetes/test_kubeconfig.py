"""Kubeconfigs: as kubectl writes them, and as somebody else might."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import CANNOT

from zombiescope.core import Unparsable, UserError
from zombiescope.kubernetes import kubeconfig, plain_yaml

WRITTEN = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: https://10.0.0.1:6443 # by hand
  name: "one"
- name: two
  cluster:
    server: https://two.example
    tls-server-name: kubernetes
    certificate-authority: pki/ca.crt
contexts:
- context: {{}}
  name: empty
- context:
    cluster: one
    user: 'system:node:n1'
  name: first
-   name: second
    context:
        cluster: two
        user: other
current-context: first
kind: Config
preferences: {{}}
users:
- name: system:node:n1
  user:
    token: secret-word
- name: other
  user:
    client-certificate: /pki/node.crt
    client-key: node.key
    tokenFile: token
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text(WRITTEN.format(ca=base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()))
    return file


def test_the_current_context_and_another(written: Path) -> None:
    first = kubeconfig.access(str(written))
    assert (first.server, first.token.text) == ("https://10.0.0.1:6443", "secret-word")
    assert first.ca.text.startswith("-----BEGIN") and not first.certificate
    second = kubeconfig.access(str(written), "second")
    folder = str(written.parent)
    assert (second.server, second.server_name) == ("https://two.example", "kubernetes")
    assert (second.ca.file, second.key.file) == (f"{folder}/pki/ca.crt", f"{folder}/node.key")
    assert (second.certificate.file, second.token.file) == ("/pki/node.crt", f"{folder}/token")


def test_it_says_the_same_as_kubectl(written: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip(CANNOT + "kubectl is missing")
    view = ["kubectl", "config", "view", "--raw", "--kubeconfig", str(written), "-o"]
    as_json = subprocess.run([*view, "json"], capture_output=True, check=True, text=True, timeout=60).stdout
    as_yaml = subprocess.run([*view, "yaml"], capture_output=True, check=True, text=True, timeout=60).stdout
    assert plain_yaml.loads(as_yaml, "yaml") == {"preferences": {}} | json.loads(as_json)
    assert plain_yaml.loads(as_json, "json") == json.loads(as_json)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("current-context: first", "current-context: third", "no context named 'third'"),
        ("current-context: first", "", "no current-context"),
        ("current-context: first", "current-context: empty", "no cluster"),
        ("token: secret-word", "exec: {}", ""),
        ("token: secret-word", "exec:\n      command: aws", "exec is not supported"),
        ("token: secret-word", "client-key: /x", "belong together"),
        ("server: https://10.0.0.1:6443", "server: http://10.0.0.1", "not the https"),
        ("server: https://10.0.0.1:6443", "insecure-skip-tls-verify: true", "refused"),
        ("certificate-authority-data: ", "certificate-authority-data: ü", "not base64"),
        ("kind: Config", "kind: &x Config", "line 24 is not understood"),
        ("kind: Config", "kind: |\n  Config", "not understood"),
        ("kind: Config", "kind: Config\nkind: Config", "line 25 is not understood"),
        ("token: secret-word", "token: !secret-word", "not understood"),
        ("kind: Config", "\tkind: Config", "not understood"),
        ("kind: Config", "kind Config", "not understood"),
        ("kind: Config", "  kind: Config", "not understood"),
    ],
)
def test_what_cannot_be_used_is_said(written: Path, before: str, after: str, says: str) -> None:
    written.write_text(written.read_text().replace(before, after))
    if not says:
        kubeconfig.access(str(written))
        return
    with pytest.raises(UserError, match=says) as refused:
        kubeconfig.access(str(written))
    assert "secret-word" not in str(refused.value)


def test_no_file_and_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        kubeconfig.access(str(tmp_path / "none"))
    for text in ("", "- a\n- b\n", "[]", "{", "{" * 100_000):
        (tmp_path / "odd").write_text(text)
        with pytest.raises(UserError, match="odd"):
            kubeconfig.access(str(tmp_path / "odd"))
    with pytest.raises(UserError):
        kubeconfig.access("/dev/zero")


plain = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text()
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _as_yaml(value: Any, indent: int) -> str:
    """Block style, as kubectl writes it, each string in JSON's quotes."""
    space = " " * indent
    if isinstance(value, dict) and value:
        return "".join(f"\n{space}{json.dumps(key)}:{_as_yaml(it, indent + 2)}" for key, it in value.items())
    if isinstance(value, list) and value:
        return "".join(f"\n{space}-{_as_yaml(it, indent + 2)}" for it in value)
    return " " + json.dumps(value)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), values, min_size=1, max_size=4))
def test_what_is_written_is_read(value: dict[str, Any]) -> None:
    assert plain_yaml.loads(_as_yaml(value, 0), "x") == value


@given(st.text(alphabet="ab:- \n'\"#{}[]&|>\t\\0", max_size=200) | st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        plain_yaml.loads(text, "x")
    except Unparsable as error:
        assert error.line >= 1
