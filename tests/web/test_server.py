"""The verb and its server, as a user runs them: who gets in, what the browser is told, and how it ends."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.test_fix import recorded
from tests.cli.test_sources import SCRIPT
from tests.conftest import COMMAND, PROJECT, Run
from tests.diagnosis.incident import incident
from tests.waiting import until
from tests.web import scene
from tests.web.unpacked import Unpacked

from zombiescope.core import UserError
from zombiescope.web import shell
from zombiescope.web.onefile import one_file
from zombiescope.web.payload import bundle
from zombiescope.web.server import listening

pytestmark = pytest.mark.e2e
BUILT = PROJECT / "src/zombiescope/web/static/page.js"
FOLDED = "init;main;work 30\ninit;main;[k] read_[k] 12\n"


@pytest.fixture(autouse=True)
def page_is_built() -> None:
    if not BUILT.exists():
        pytest.skip("the page is not built: make page")


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    file = tmp_path / "stacks.folded"
    file.write_text(FOLDED)
    return file


@contextmanager
def viewing(*argv: str, verb: tuple[str, ...] = ("view",)) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server at work, and the address it printed."""
    process = subprocess.Popen([str(COMMAND), *verb, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def asked(url: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, dict(refusal.headers), refusal.read()


def test_who_has_the_address_gets_the_page_and_nobody_else_anything(folded: Path) -> None:
    with viewing(str(folded)) as (_, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", url)
        status, headers, body = asked(url)
        assert status == 200 and b'<script src="page.js" defer>' in gzip.decompress(body)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
        told = Unpacked(gzip.decompress(asked(url + "bundle")[2]))
        assert told.header["label"] == "stacks.folded" and told.header["samples"] == 2
        assert gzip.decompress(asked(url + "page.js")[2]) == BUILT.read_bytes()
        assert asked(url[:-1])[2] == body, "a slash that was lost is no harm"
        root = url[: url.index("/", 8)]
        nearly = url[len(root) : -2] + ("y" if url[-2] == "x" else "x")
        for wrong in ("/", "/page.js", "/bundle", "/guess/", "/guess/bundle", f"{nearly}/bundle"):
            status, headers, body = asked(root + wrong)
            assert status == 403 and len(body) < 100, wrong
        for missing in ("../server.py", "nothing", "bundle/", "static/page.js"):
            assert asked(url + missing)[0] in (403, 404)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_told_to(folded: Path, ending: signal.Signals) -> None:
    with viewing(str(folded)) as (process, url):
        assert asked(url)[0] == 200
        process.send_signal(ending)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0 and "Traceback" not in err and out == ""


def test_a_port_that_is_taken_is_told_in_one_line(folded: Path, zombiescope: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = zombiescope("view", str(folded), "--port", port, expect=2)
    assert f"127.0.0.1:{port}" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_strange_hosts_and_ports_are_refused() -> None:
    for host, port in (("256.0.0.1", 0), ("127.0.0.1", 99_999)):
        with pytest.raises(UserError, match="cannot listen"):
            listening(host, port)


def test_one_file_holds_all_and_may_fetch_nothing(folded: Path, tmp_path: Path, zombiescope: Run) -> None:
    out = tmp_path / "page.html"
    zombiescope("view", str(folded), "-o", str(out), expect=0)
    text = out.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1] and "connect-src" not in policy[1]
    script, style = re.findall(r"<script>(.*?)</script>", text, re.S), re.findall(r"<style>(.*?)</style>", text, re.S)
    assert len(script) == len(style) == 1
    for part in (*script, *style):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    data = re.search(r'id="bundle">([^<]*)</script>', text)
    assert data and Unpacked(gzip.decompress(base64.b64decode(data[1]))).header["samples"] == 2
    assert not re.search(r'(?:src|href)="(?!data:)', text), "nothing is asked for"
    again = tmp_path / "again.html"
    zombiescope("view", str(folded), "-o", str(again), expect=0)
    assert again.read_bytes() == out.read_bytes()


def test_hostile_names_do_not_get_into_the_markup() -> None:
    made = one_file(bundle(scene.capture(), scene.timeline(), scene.case()), "<b>" + scene.HOSTILE).decode(
        errors="surrogateescape"
    )
    assert "<img" not in made.replace("&lt;img", "") and made.count("</script>") == 2


def test_the_heatmap_alone(tmp_path: Path, zombiescope: Run) -> None:
    text = "".join(f"swapper 1 [000] {at}: cpu-clock:\n\tffff a ([kernel])\n\n" for at in ("10.100000", "11.500000"))
    source = tmp_path / "perf.txt"
    source.write_text(text)
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<svg"), ("a.json", b"{")):
        zombiescope("view", str(source), "-o", str(tmp_path / name), expect=0)
        assert (tmp_path / name).read_bytes().startswith(magic)
    cells = json.loads((tmp_path / "a.json").read_text())
    assert cells["row_nanoseconds"] == 20_000_000 and cells["start_nanoseconds"] == 10 * 10**9
    assert [(x, y) for x, column in enumerate(cells["columns"]) for y, heat in enumerate(column) if heat] == [
        (0, 5),
        (1, 25),
    ]


def test_the_browser_s_command_line_does_not_hold_the_token(
    folded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that notes how it was called and what it was given to read."""
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\n(echo "$@"; stat -c %a "$file" "${{file%/*}}"; cat "$file") > {told}.part\n'
        f"mv {told}.part {told}\n"
    )
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with viewing(str(folded), "--open") as (_, url):
        until(told.exists)
        argv, file_mode, folder_mode, page = told.read_text().splitlines()
        token = url.split("/")[3]
        assert argv.startswith("file:///") and token not in argv and (file_mode, folder_mode) == ("600", "700")
        assert f'content="0; url={url}"' in page
        opening = Path(argv.removeprefix("file://"))
        assert asked(url.replace(token, "x" * len(token)))[0] == 403 and opening.exists(), "a stranger does not end it"
        assert asked(url)[0] == 200 and not opening.exists() and not opening.parent.exists()


def test_a_range_outside_the_recording_is_an_error_that_says_when_it_was(tmp_path: Path, zombiescope: Run) -> None:
    rec, out = recorded(incident(without="stacks"), tmp_path / "rec"), str(tmp_path / "a.html")
    lasts = "it lasts from 2026-11-06T21:20:00Z to 2026-11-06T21:22:00Z"
    for argv in (("--from", "2026-11-06T21:30:00"), ("--to", "2026-11-06T21:00:00")):
        assert lasts in zombiescope("view", rec, *argv, "-o", out, expect=2).stderr, argv
        for verb in ("diagnose", "before", "flame"):
            assert lasts in zombiescope(verb, rec, *argv, expect=2).stderr, verb
    zombiescope("view", rec, "--from", "2026-11-06T21:00:00", "--to", "2026-11-06T21:21:00", "-o", out, expect=0)
    script = tmp_path / "script.txt"
    script.write_bytes(SCRIPT)
    assert "it lasts from 0 to" in zombiescope("view", str(script), "--from", "600", "-o", out, expect=2).stderr


def test_mistakes_are_told_in_one_line(folded: Path, tmp_path: Path, zombiescope: Run) -> None:
    for argv, words in (
        (("nowhere",), "no such file"),
        ((str(folded), "-o", "page.pdf"), ".html"),
        ((str(folded), "-o", str(tmp_path / "no" / "page.html")), "no such file"),
        ((str(folded), "--port", "70000"), "port"),
        ((str(folded), "--from", "3", "-o", str(tmp_path / "a.html")), "no times"),
        ((str(folded), "-o", str(tmp_path / "a.png")), "no times"),
    ):
        done = zombiescope("view", *argv, expect=2)
        assert words in done.stderr.lower(), done.stderr


def test_without_the_page_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "FOLDER", "not-built")
    with pytest.raises(UserError, match="run `make page`"):
        one_file(b"", "")
