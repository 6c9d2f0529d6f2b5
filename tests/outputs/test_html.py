"""The page for a ticket: whole, self-contained, harmless, readable; and what a real browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.nodes import T0, node, read
from tests.outputs.incident import STAGES, finding, incident
from tests.outputs.incident_readings import LOST, STALLS, reading, timeline
from tests.servers import served

from zombiescope.core import Case, Span, Verdict
from zombiescope.core.timeline import Timeline
from zombiescope.outputs import html
from zombiescope.outputs._sparkline import COLUMNS, sparklines

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Reads a page as strictly as a person who mistrusts it: every tag is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [its for name, its in self.tags if name == tag and wanted.items() <= its.items()]


def page(case: Case, seen: Timeline | None = None) -> str:
    out = io.StringIO()
    html.write(case, seen or timeline(), out)
    return out.getvalue()


@pytest.fixture(scope="module")
def whole() -> str:
    return page(incident())


def test_it_is_one_file_that_asks_for_nothing_and_runs_nothing(whole: str) -> None:
    shown = Page(whole)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in shown.tags}
    for _, attributes in shown.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")]
        assert attributes.get("href", "#").startswith("#")
    style = re.findall(r"<style>(.*?)</style>", whole, re.DOTALL)
    assert len(style) == 1 and not re.search(r"@import|url\(", style[0])
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policy = next(its["content"] for its in shown.all("meta") if its.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and f"style-src 'sha256-{digest}'" in policy


def test_the_same_case_gives_the_same_bytes(whole: str) -> None:
    assert page(incident()) == whole


def test_the_story_is_told_from_its_first_cause_and_each_stage_once(whole: str) -> None:
    shown = Page(whole)
    body = shown.text[shown.text.index("Problem") :]
    assert body.index("72 restarts in 12 min") < body.index("What happened")
    told = re.findall(r'<li id="f\d+">.*?<h3><code class="sign">(\w+)', whole, re.DOTALL)
    assert tuple(told[:7]) == STAGES and told[7:] == ["defunct_processes", "cpu_throttling"]
    assert "It happened 4 times more" in shown.text
    said = re.findall(r'<p class="says">[^<]*? (was reset|lost its)', whole)
    assert (said.count("was reset"), said.count("lost its")) == (len(STALLS), len(LOST))
    ids = [its["id"] for _, its in shown.tags if "id" in its]
    assert len(ids) == len(set(ids))
    assert {its["href"][1:] for its in shown.all("a")} <= set(ids), "every way on the page leads somewhere"


@pytest.mark.parametrize(
    "words",
    [
        "dose", "mechanism", "72 restarts, 72 more dying", "other possible cause: irq_pile_up cpu:5 (same place)",
        "5 of 5 driver_reset follow starved_softirq; 0 of 5", "TX q 5 is paused for too long",
        "$ systemctl show ecs.service -p NRestarts", "could not be checked: page_fault_storm: page_fault_storm is",
        "refuted reclaim_explains_throttling", "no page was scanned in 119", "cannot tell zone_explains_resets",
        "to see it: run on the host: nsenter", "KeyError: 'cpu'", "1,203 of 262,144", "systemctl mask --now ecs",
        "undo: systemctl unmask ecs.service", "mask_unit safe", "purge_zombies disruptive", "saturated_core.FULL=0.85",
        "zombiescope fix", "gpu-17.us-east-1a", "5.4.0-1106-aws", "12 min from 2026-11-06 21:20:00 UTC",
        "11 found, 11 clear, 3 blind, 1 broken", "The whole picture: 22 findings, 25 links",
    ],
)  # fmt: skip
def test_nothing_is_left_out(words: str, whole: str) -> None:
    assert words in re.sub(r"\s+", " ", Page(whole).text)


def test_hostile_names_are_text_and_nothing_else(whole: str) -> None:
    assert "<script" not in whole and "<img" not in whole and "\x1b" not in whole and "\u202e" not in whole
    assert '</code><script src="http://127.0.0.1:9/evil.js">' in Page(whole).text
    assert whole.encode("utf-8")


def test_it_is_built_for_screen_readers_and_keyboards(whole: str) -> None:
    shown = Page(whole)
    assert [len(shown.all(tag)) for tag in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    assert shown.all("html", lang="en") and all(its.get("aria-label") for its in shown.all("svg", role="img"))
    assert all(its.get("scope") == "col" for its in shown.all("th"))
    headings = [int(tag[1]) for tag, _ in shown.tags if re.fullmatch(r"h\d", tag)]
    assert all(later <= earlier + 1 for earlier, later in pairwise(headings))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_can_be_read_on_what_it_stands_on(scheme: str) -> None:
    """WCAG AA: a contrast of 4.5."""
    light, dark = html.STYLE.partition("* {")[0].split("prefers-color-scheme: dark")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))
    for ink in ("ink", "soft", "red", "amber", "green", "blue", "violet"):
        for paper in ("paper", "raised", *([f"{ink}-wash"] if f"{ink}-wash" in colours else [])):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    assert contrast(colours["soft"], colours["grey-wash"]) >= 4.5


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dim, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dim + 0.05)


def test_a_clear_node_and_a_blind_one_are_not_the_same() -> None:
    span = Span(T0, T0 + 10)
    clear = Case(node="n", kernel="k", span=span, verdicts=(Verdict(sign="well", state="clear", says="0 of 7"),))
    blind = replace(clear, verdicts=(*clear.verdicts, Verdict(sign="dark", state="blind", says="permission denied")))
    assert "Ok nothing found" in Page(page(clear)).text and "0 of 7" in Page(page(clear)).text
    shown = Page(page(blind)).text
    assert "Not sure" in shown and "1 of 2 checks could not look" in shown and "run as root" in shown
    assert "What happened" not in shown and "What to do" not in shown


def test_where_nothing_is_joined_there_is_no_picture_of_it() -> None:
    alone = replace(incident(), links=(), unexplained=(), tallies=())
    assert 'class="picture"' in page(incident()) and 'class="picture"' not in page(alone)


def test_a_node_that_flaps_gives_a_page_that_still_opens() -> None:
    flapping = tuple(
        finding("saturated_core", f"cpu:{it % 8}", it, it + 0.5, "was busy", reading("seen", "node", 1, it))
        for it in range(2000)
    )
    began = time.process_time()
    shown = page(Case(node="n", kernel="k", span=Span(T0, T0 + 2000), findings=flapping))
    assert len(shown) < 300_000 and time.process_time() - began < 20
    assert "… and 1949 more, in the JSON" in Page(shown).text and "… and 1995 more, in the JSON" in Page(shown).text


def test_a_peak_of_one_second_in_an_hour_is_drawn_with_a_bounded_number_of_points() -> None:
    seen = node(read("queue_length", "node", 900 if at == 1777 else 3, at) for at in range(3600))
    spell = finding("full", "node", 0, 3599, "full", read("queue_length", "node", 3, 0))
    [drawn] = sparklines(spell, seen)
    points = re.findall(r"[ML](\d+) (\d+\.\d)", drawn)
    assert len(points) <= COLUMNS and "3 – 900" in drawn
    assert sum(float(y) < 5 for _, y in points) == 1, "the peak reaches the top, once"


def test_a_curve_has_a_gap_where_nobody_looked_and_a_flat_one_or_a_log_is_not_drawn() -> None:
    seen = node(
        [
            *(read("load", "node", float("nan") if 40 <= at < 60 else at, at) for at in range(100)),
            *(read("flat", "node", 7, at) for at in range(100)),
            *(read("kernel_log", "node", at % 7, at, "words") for at in range(100)),
            *(read("restarts_total", "unit:a", at // 30, at) for at in range(100)),
            *(read("cpu_system_seconds_total", "cpu:1", at * 0.5 if at < 50 else 25, at) for at in range(100)),
        ]
    )

    def drawn(what: str, subject: str = "node") -> list[str]:
        return list(sparklines(finding("s", subject, 10, 90, "s", read(what, subject, 1, 10)), seen))

    assert drawn("load")[0].count("M") == 2
    assert drawn("flat") == [] and drawn("kernel_log") == [] and drawn("nowhere") == []
    assert "0 – 3" in drawn("restarts_total", "unit:a")[0], "a counter that mostly stands is drawn as stairs"
    assert "cpu_system_ratio cpu:1" in drawn("cpu_system_ratio", "cpu:1")[0], "a share of time from its seconds"


@contextmanager
def canary() -> Iterator[tuple[str, list[str]]]:
    """An address that nobody should ask, and who did."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

    with served(Answer) as address:
        yield address, asked


def browse(file: Path, profile: Path, *options: str) -> tuple[str, list[str]]:
    """The page as the browser understood it, and what it had to say on its console."""
    if not CHROMIUM:
        pytest.skip(f"{CANNOT}no Chromium is installed")
    base = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    done = subprocess.run(
        [
            CHROMIUM,
            *base,
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            *options,
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        timeout=90,
        check=True,
    )
    said = done.stderr.decode(errors="replace").splitlines()
    return done.stdout.decode(), [line for line in said if "CONSOLE" in line]


def test_a_real_browser_shows_it_without_a_complaint_or_a_request(tmp_path: Path) -> None:
    with canary() as (address, asked):
        file = tmp_path / "case.html"
        file.write_text(page(incident(canary=address)))
        dom, console = browse(file, tmp_path / "profile")
        assert not console and not asked
        shown = Page(dom)
        assert [len(shown.all(tag)) for tag in ("header", "main", "footer", "script", "img")] == [1, 1, 1, 0, 0]
        assert address in shown.text, "the hostile name is there, as text"
        # The same browser does complain, and still does not ask, when a script got in: the policy holds by itself.
        evil = f'<script src="http://{address}/evil.js"></script><p style="color:red">x</p></main>'
        file.write_text(file.read_text().replace("</main>", evil))
        _, console = browse(file, tmp_path / "profile")
        assert len(console) >= 2 and "Content Security Policy" in console[0] and not asked
