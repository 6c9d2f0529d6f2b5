"""The fleet's page in a real browser: 10,000 simulated nodes painted, sorted, grouped, filtered, pointed at, opened.

Each ratio is of wall time to its limit: the page is for a person who waits. The first picture is counted from the
moment the address is entered, the server's answer included; an interaction from its event until it is on the screen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench._browser import browsing, first_picture
from zombiescope.core import UserError
from zombiescope.fleet.simulated.fleet import simulate

NODES, HOURS, SEED = 10_000, 6, 7
EVERY = 300  # seconds between two readings of a node: the page's own questions do not see them
FIRST, ACTS = 1000.0, 50.0  # milliseconds
COMMAND = Path(sys.executable).parent / "zombiescope"

# Events as a person makes them, each measured until the frame that shows it has been painted.
INTERACTIONS = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const choose = (name, value) => () => {
    const it = document.querySelector(`select[name=${name}]`);
    it.value = value;
    it.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const type = (text) => () => {
    const it = document.querySelector("#search");
    it.value = text;
    it.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const grid = () => document.querySelector(".node-grid");
  const point = (kind, x, y) => () => {
    const box = grid().getBoundingClientRect();
    const at = { bubbles: true, clientX: box.left + x, clientY: box.top + y };
    grid().dispatchEvent(new PointerEvent(kind, at));
  };
  const press = (key) => () => grid().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const unit = window.fleet.state.fleet.units[0].name;
  const acts = {
    "sort by name": choose("sort", "name"), "sort by zone": choose("sort", "trait:zone"),
    "sort by harm": choose("sort", "harm"), "group by zone": choose("group", "trait:zone"),
    "group by image": choose("group", "trait:image"), "group by a unit": choose("group", `unit:${unit}`),
    "group by nothing": choose("group", ""), "only the sick": choose("kind", "sick"), "all": choose("kind", "all"),
    "one root cause": choose("root", "0"), "any root cause": choose("root", "-1"),
    "filter": type("n"), "filter more": type("node-0123"), "filter by zone": type("us-east-1a"), "no filter": type(""),
    "point": point("pointermove", 300, 200), "point elsewhere": point("pointermove", 310, 260),
    "arrow": press("ArrowRight"), "arrow down": press("ArrowDown"), "end": press("End"),
    "open a node": point("click", 40, 40), "close it": press("Escape"),
    "as a table": () => document.querySelectorAll(".nodes-bar .buttons button")[1].click(),
    "as a grid": () => document.querySelectorAll(".nodes-bar .buttons button")[0].click(),
  };
  const found = {};
  for (let round = 0; round < 3; round++) {
    for (const [name, act] of Object.entries(acts)) {
      await frame();
      const began = performance.now();
      act();
      await frame();
      found[name] = Math.min(found[name] ?? Infinity, performance.now() - began);
    }
  }
  return found;
}"""


# From a click until all that a node sent is there: the server has to ask for it.
DETAILS = """async () => {
  const { state } = window.fleet, found = [];
  for (let i = 0; i < 5; i++) {
    const began = performance.now();
    state.node.value = state.arranged.value.order[i];
    while (!document.querySelector(".case .findings")) await new Promise((done) => setTimeout(done, 2));
    found.push(performance.now() - began);
    state.node.value = null;
    await new Promise((done) => requestAnimationFrame(done));
  }
  return found.sort((a, b) => a - b)[2];
}"""


@contextmanager
def serving(store: str, folder: str) -> Iterator[str]:
    """The address of the page of a store in a folder."""
    command = [str(COMMAND), "fleet", "view", store]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def ratios() -> Iterator[tuple[str, float, float, str]]:
    if not COMMAND.exists():
        raise UserError(f"{COMMAND} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        simulate(os.path.join(folder, "fleet"), NODES, HOURS, SEED, "incident", EVERY)
        began = time.monotonic()
        with serving("./fleet", folder) as address, browsing() as page:
            ready = time.monotonic() - began
            painted = first_picture(page, address, "window.fleet.painted")
            found: dict[str, float] = page.evaluate(INTERACTIONS)
            details = float(page.evaluate(DETAILS))
            shown = int(page.evaluate("window.fleet.state.fleet.count"))
    load = f"load {os.getloadavg()[0]:.1f}"
    told = f"{shown:,} nodes, {HOURS} h; the server was ready after {ready:.1f} s; {load}"
    yield "first picture", painted / FIRST, 1.0, f"{painted:.0f} of {FIRST:.0f} ms; {told}"
    slowest = sorted(found.items(), key=lambda it: -it[1])
    said = ", ".join(f"{name} {took:.0f}" for name, took in slowest[:4])
    yield "slowest interaction", slowest[0][1] / ACTS, 1.0, f"{said} of {ACTS:.0f} ms; {len(found)} kinds; {load}"
    yield "a node's details", details / FIRST, 1.0, f"{details:.0f} of {FIRST:.0f} ms; {load}"
