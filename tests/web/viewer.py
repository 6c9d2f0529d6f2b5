"""A page that is open in a real browser, and what a person does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.waiting import HANGS

from zombiescope.core.samples import Samples
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.tree import planted
from zombiescope.web._axis import SECOND

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Viewer:
    """Keeps all that the page said on its console, and all it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(1000 * HANGS)
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(f"() => {{ const {{ state, ...page }} = window.zombiescope; return {script}; }}")

    def reset(self) -> None:
        """As it was when it was opened, but for its history."""
        self.page.mouse.move(1, 1)
        self.page.evaluate(
            """() => {
                const { state } = window.zombiescope;
                const none = { cpu: null, pid: null, comm: null, cgroup: null };
                Object.assign(state.search, { value: "" });
                for (const [name, value] of Object.entries({
                    chosen: null, baseline: null, view: state.whole, filter: none, focus: 0, reading: null, notice: "",
                    comparing: false, pane: "flame", about: null, tip: null, helping: false, upright: false,
                })) state[name].value = value;
                for (const it of document.querySelectorAll(".time, .case, .graph, .words")) it.scrollTop = 0;
                document.activeElement?.blur();
            }"""
        )

    def shown(self) -> dict[str, Any]:
        """What a click leads to."""
        names = "reading", "chosen", "baseline", "view", "pane", "notice"
        return {name: self.ask(f"state.{name}.value") for name in names}

    def range(self, name: str) -> tuple[float, float] | None:
        found = self.ask(f"state.{name}.value")
        return found and (found["start"] / SECOND, found["end"] / SECOND)

    def becomes(self, **wanted: Any) -> None:
        """Wait until all of the state is so, at once; ranges in seconds."""
        states = {name: [it * SECOND for it in its] if isinstance(its, tuple) else its for name, its in wanted.items()}
        script = """(wanted) => {
            const { state } = window.zombiescope;
            const now = (name) => {
                const its = state[name].value;
                return its && typeof its === "object" ? [its.start, its.end] : its;
            };
            return Object.keys(wanted).every((it) => JSON.stringify(now(it)) === JSON.stringify(wanted[it]));
        }"""
        self.page.wait_for_function(script, arg=states)

    def point(self, second: float, lane: str, number: int = 0) -> tuple[float, float]:
        """Where a time of the whole recording lies on a lane, in pixels."""
        label = self.page.locator(f".of-{lane}").nth(number)
        label.scroll_into_view_if_needed()
        surface, row = self.page.locator(".surface").first.bounding_box(), label.bounding_box()
        assert surface and row
        start, end = self.range("view") or (0.0, 1.0)
        return surface["x"] + surface["width"] * (second - start) / (end - start), row["y"] + row["height"] / 2

    def drag(self, start: float, end: float, lane: str = "cores", *, ctrl: bool = False) -> None:
        mouse, (x, y), (to, _) = self.page.mouse, self.point(start, lane), self.point(end, lane)
        if ctrl:
            self.page.keyboard.down("Control")
        mouse.move(x, y)
        mouse.down()
        mouse.move((x + to) / 2, y)
        mouse.move(to, y)
        mouse.up()
        if ctrl:
            self.page.keyboard.up("Control")

    def pixels(self, lane: str) -> dict[str, int]:
        """How often each colour is on a canvas."""
        script = """(name) => {
            const canvas = document.querySelector(`canvas.${name}`), found = {};
            const copy = new OffscreenCanvas(canvas.width, canvas.height)
                .getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
            for (let i = 0; i < data.length; i += 4) {
                const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
                found[key] = (found[key] ?? 0) + 1;
            }
            return found;
        }"""
        found: dict[str, int] = self.page.evaluate(script, lane)
        return found

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()


def flame(found: Samples, chosen: Chosen) -> list[int]:
    """The total of every node, as profile/ counts it."""
    totals: list[int] = planted(found).flame(chosen).total.tolist()
    return totals
