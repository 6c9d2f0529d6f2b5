"""The fleet's page in a real browser, served by the command of the docs: what it shows, against what the store says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from tests.web import fleet_store
from tests.web.accessible import serious
from tests.web.fleet.viewing import CELL, is_grey, is_red, names, node_at, of
from tests.web.test_server import asked, viewing
from tests.web.viewer import Viewer

from zombiescope.fleet.compare import compare
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import HARMS
from zombiescope.fleet.simulated.fleet import simulate
from zombiescope.fleet.status import status

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.e2e
WIDE, TALL = 1500, 900
LOADS = 30_000  # milliseconds: of a machine that does other things


def test_every_node_has_a_cell_and_the_harm_is_painted(page: Viewer, fleet: Fleet) -> None:
    many = fleet.rows("SELECT count(*) FROM nodes")[0][0]
    sick = fleet.rows(f"SELECT count(DISTINCT node_id) FROM findings WHERE role IN {HARMS}")[0][0]
    assert many > fleet_store.NODES - 20 and of(page, "fleet.count") == many
    assert of(page, "[...fleet.state].filter((it) => it === 2).length") == sick
    assert f"{sick} sick" in page.text(".bar .what")
    # Of a cell one line of dots is a gap. Who is silent has a rim of three dots; zero is no dot.
    cell, rim = (CELL - 1) ** 2, (CELL - 1) ** 2 - (CELL - 7) ** 2
    painted = {key: dots for key, dots in page.pixels("nodes").items() if key != "0,0,0"}
    for kind, is_kind in (("fleet.state[i] === 0", is_grey), ("fleet.state[i] === 2 && fleet.cost[i] >= 0", is_red)):
        loud, silent = of(
            page, f"[0, 1].map((quiet) => fleet.name.filter((_, i) => {kind} && fleet.silent[i] === quiet).length)"
        )
        dots = sum(many for key, many in painted.items() if is_kind(*map(int, key.split(","))))
        assert dots == loud * cell + silent * rim > 0, kind


def test_sorted_by_harm_the_dearest_is_first_and_by_name_the_first(page: Viewer, fleet: Fleet) -> None:
    cost = of(page, "[...state.arranged.value.order].map((it) => fleet.state[it] === 2 ? fleet.cost[it] : -1)")
    known = [it for it in cost if it is not None]
    assert known == sorted(known, reverse=True) and known[0] > 0 > known[-1]
    total = sum(it["core_hours_a_day"] for it in status(fleet)["root_causes"])
    assert sum(it for it in known if it > 0) == pytest.approx(total, rel=0.01)
    page.page.locator("select[name=sort]").select_option("name")
    assert names(page) == sorted(names(page))


def test_filters_by_text_by_root_cause_and_by_state(page: Viewer, fleet: Fleet) -> None:
    page.page.keyboard.press("/")
    page.page.wait_for_function("() => document.activeElement?.id === 'search'")
    page.page.keyboard.type("US-EAST-1a")
    wanted = {it[0] for it in fleet.rows("SELECT name FROM nodes WHERE zone = 'us-east-1a'")}
    assert set(names(page)) == wanted and f"{len(wanted)} of " in page.text(".count")
    page.page.keyboard.press("Escape")
    page.page.locator(".causes .go").first.click()
    root = status(fleet)["root_causes"][0]
    assert len(names(page)) == root["nodes"] and page.page.locator(".causes [aria-pressed=true]").count() == 1
    page.page.keyboard.press("Escape")
    page.page.locator("select[name=kind]").select_option("unchecked")
    blind = "SELECT count(*) FROM nodes WHERE len(blind) > 0 AND node_id NOT IN"
    query = f"{blind} (SELECT node_id FROM findings WHERE role IN {HARMS})"
    assert len(names(page)) == fleet.rows(query)[0][0] > 0
    page.page.locator("#search").fill("there is no such node")
    assert names(page) == [] and page.page.locator("main .nothing").inner_text() == "no node fits"


def test_groups_tell_how_many_are_sick_in_each(page: Viewer, fleet: Fleet) -> None:
    page.page.locator("select[name=group]").select_option("trait:zone")
    heads = page.page.locator(".node-grid h3").all_inner_texts()
    rows = fleet.rows(f"""
        SELECT zone, count(*), count(*) FILTER (node_id IN (SELECT node_id FROM findings WHERE role IN {HARMS}))
        FROM nodes WHERE zone LIKE 'us-%' GROUP BY 1""")
    for zone, many, sick in rows:
        assert [it for it in heads if it.startswith(f"{zone} {many} nodes, {sick} sick (")], heads
    zones = [it.split()[0] for it in heads if it.startswith("us-")]
    assert zones[0] == max(rows, key=lambda it: it[2] / it[1])[0], "the sickest first"
    page.page.locator("select[name=group]").select_option("unit:ecs.service")
    first, second = page.page.locator(".node-grid h3").all_inner_texts()
    assert first.startswith("ecs.service active") and second.startswith("ecs.service not active")


def test_a_click_opens_the_node_and_tells_the_way_to_it(page: Viewer, fleet: Fleet) -> None:
    page.page.locator("#search").fill("node-")
    page.page.mouse.move(*node_at(page, 0))
    name = names(page)[0]
    assert page.text(".tip").startswith(name) and "core-hours a day" in page.text(".tip")
    page.page.mouse.click(*node_at(page, 0))
    page.page.wait_for_selector(".case .findings", timeout=LOADS)
    shown = page.text(".case")
    its = fleet.rows("SELECT node_id FROM nodes WHERE name = ?", [name])[0][0]
    for sign, says in fleet.rows("SELECT sign, arg_max(says, ended) FROM findings WHERE node_id = ? GROUP BY 1", [its]):
        assert sign in shown and says in shown
    link = page.page.locator(".case a")
    assert link.get_attribute("href") == f"https://{name}.example:9479/page/"
    assert link.get_attribute("rel") == "noopener noreferrer"
    commands = page.page.locator(".commands code").all_inner_texts()
    assert commands[0].startswith("zombiescope view /var/lib/zombiescope --from 2026-03-01T0")
    assert str(its) in commands[-1] and page.page.locator(".ring.open").count() == 1
    page.page.locator(".node-head button").click()
    assert page.page.locator(".causes").count() == 1


def test_by_keyboard_alone(page: Viewer) -> None:
    page.page.locator(".node-grid").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp"):
        page.page.keyboard.press(key)
    order = names(page)
    assert page.text(".grid-pane [role=status]").startswith(order[1])
    page.page.keyboard.press("End")
    assert page.text(".grid-pane [role=status]").startswith(order[-1])
    page.page.keyboard.press("Home")
    page.page.keyboard.press("Enter")
    assert page.text(".case h2") == order[0]
    page.page.keyboard.press("Escape")
    assert page.page.locator(".case h2").inner_text() != order[0]
    for key, pane in (("2", "common"), ("3", "time"), ("4", "flame"), ("1", "nodes")):
        page.page.keyboard.press(key)
        assert of(page, "state.pane.value") == pane


def test_the_table_has_the_same_nodes(page: Viewer) -> None:
    page.page.keyboard.press("t")
    first = page.page.locator(".tables tbody th").all_inner_texts()
    order = names(page)
    assert first == order[:50]
    page.page.get_by_text("next 50").click()
    assert page.page.locator(".tables tbody th").all_inner_texts() == order[50:100]
    page.page.locator(".tables thead button", has_text="node").first.click()
    assert page.page.locator(".tables tbody th").first.inner_text() == sorted(order)[0]
    page.page.locator(".tables tbody button").nth(5).click()
    assert page.text(".case h2") == sorted(order)[5]


def test_what_sick_nodes_have_in_common_is_what_compare_says(page: Viewer, fleet: Fleet) -> None:
    page.page.keyboard.press("2")
    page.page.locator("select[name=sick]").select_option("driver_reset")
    page.page.wait_for_selector(".cause", timeout=LOADS)
    said = compare(fleet, "driver_reset")
    cause = said["causes"][0]
    assert cause["factor"] == "unit:ecs.service=active"
    box = page.text(".cause")
    assert f"Most likely: {cause['factor']}" in box and cause["says"] in box
    assert all(it in box for it in cause["explains_away"])
    assert f"{said['sick']} of {said['nodes']} nodes are sick" in page.text(".lead")
    page.page.get_by_role("button", name="nodes by unit:ecs.service").click()
    assert of(page, "[state.pane.value, state.group.value]") == ["nodes", "unit:ecs.service"]


@pytest.mark.long
def test_what_cannot_be_told_is_said(browser: Browser, tmp_path: Path) -> None:
    truth = simulate(str(tmp_path / "s"), 600, 2, 1, "collinear", every=300)
    with viewing(str(tmp_path / "s"), verb=("fleet", "view")) as (_, address), browser.new_context() as context:
        viewer = Viewer(context.new_page())
        viewer.open(f"{address}#pane=common")
        viewer.page.wait_for_selector(".cause.tie", timeout=LOADS)
        told = viewer.text(".cause.tie")
        assert told.startswith("Cannot tell: ") and all(it in told for it in truth["cannot_tell"])
        assert "no node has" in told, "which node would tell"


def test_trends_and_leaks(page: Viewer, fleet: Fleet) -> None:
    page.page.keyboard.press("3")
    page.page.wait_for_selector(".leaking", timeout=LOADS)
    rows = fleet.rows(
        f"SELECT started, count(DISTINCT node_id) FROM findings WHERE role IN {HARMS} GROUP BY 1 ORDER BY 1"
    )
    page.page.locator(".curve summary").first.click()
    cells = page.page.locator(".curve .tables").first.locator("tbody td").all_inner_texts()
    assert [int(it) for it in cells] == [many for _, many in rows]
    assert "unit:ecs.service: inactive → active" in page.text(".common")
    page.page.locator(".leaking tbody button").first.click()
    assert page.text(".case h2") == page.page.locator(".leaking tbody th").first.inner_text()


def test_the_flame_graph_shows_what_sick_nodes_do_more(page: Viewer) -> None:
    page.page.keyboard.press("4")
    page.page.wait_for_selector(".frames canvas", timeout=LOADS)
    assert page.page.locator(".words tbody tr").first.inner_text().startswith("mem_cgroup_nr_lru_pages")
    assert "230,102,88" in page.pixels("flames"), "what is more is red"
    page.page.locator(".frames").focus()
    for _ in range(3):
        page.page.keyboard.press("ArrowDown")
    told = page.text(".frames [role=status]")
    assert "sick nodes: total" in told and "others: total" in told and "change: total +" in told
    page.page.keyboard.press("Enter")
    assert of(page, "state.focus.value") > 0
    page.page.keyboard.press("Escape")
    assert of(page, "state.focus.value") == 0


def test_names_that_nodes_chose_stay_text(page: Viewer) -> None:
    page.page.locator("select[name=group]").select_option("trait:zone")
    assert fleet_store.MARKUP in page.text(".node-grid") and fleet_store.SHOWN in page.text(".node-grid")
    for name, shown in zip(fleet_store.HOSTILE, (fleet_store.MARKUP, fleet_store.SHOWN), strict=True):
        place = of(page, f"fleet.name.indexOf({shown!r})")
        assert place >= 0, name
        of(page, f"(state.node.value = {place}, 0)")
        page.page.wait_for_selector(".case .findings", timeout=LOADS)
        assert page.text(".case h2") == shown and shown in page.text(".findings")
        assert page.page.locator(".case a").count() == 0, "a name that is no host's gets into no address"
    of(page, "(state.asTable.value = true, 0)")
    assert fleet_store.MARKUP in page.text(".tables tbody")
    assert page.page.evaluate("() => [document.querySelectorAll('#page script, #page img').length, window.hacked]") == [
        0,
        None,
    ]


def test_a_link_leads_to_the_same_view(page: Viewer, url: str, browser: Browser) -> None:
    page.page.locator("select[name=group]").select_option("trait:kernel")
    page.page.locator("#search").fill("node-00")
    page.page.locator("select[name=sort]").select_option("name")
    page.page.wait_for_function("() => location.hash.includes('sort=name') && location.hash.includes('node-00')")
    address, order = page.page.url, names(page)
    with browser.new_context(viewport={"width": WIDE, "height": TALL}) as context:
        other = Viewer(context.new_page())
        other.open(address)
        assert names(other) == order and other.page.locator(".node-grid h3").count() > 1
        other.open(url + "#pane=../../etc&group=__proto__&sort=constructor&sick=1%3D1&node=zz&root=x&show=silly")
        other.page.reload()
        other.page.wait_for_selector("html[data-ready]")
        assert of(other, "[state.pane.value, state.group.value, state.sort.value, state.sick.value]") == [
            *("nodes", "", "harm", "")
        ]


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_axe_finds_no_serious_fault(page: Viewer, theme: str) -> None:
    of(page, f"(state.theme.value = '{theme}', state.group.value = 'trait:zone', state.node.value = 0)")
    page.page.wait_for_selector(".case .commands", timeout=LOADS)
    for pane, there in (
        ("nodes", ".node-grid"),
        ("common", ".cause"),
        ("time", ".leaking"),
        ("flame", ".frames canvas"),
    ):
        of(page, f"(state.pane.value = '{pane}')")
        page.page.wait_for_selector(there, timeout=LOADS)
        assert serious(page) == [], pane
    of(page, "(state.pane.value = 'nodes', state.asTable.value = true, state.node.value = null)")
    assert serious(page) == [], "table"


def test_who_may_ask_and_what(url: str) -> None:
    status_code, headers, _ = asked(url)
    assert status_code == 200 and "script-src 'self'" in headers["content-security-policy"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", url)
    root = url[: url.index("/", 8)]
    for wrong in ("/", "/overview", "/guess/overview", "/guess/node?id=0"):
        assert asked(root + wrong)[0] == 403, wrong
    for missing in ("bundle", "../fleet_answers.py", "node/../../etc/passwd", "truth.json"):
        assert asked(url + missing)[0] in (403, 404), missing
    sql = "1=1 OR (SELECT count(*) FROM read_text('/etc/passwd')) > 0"
    for odd in (
        f"compare?sick={quote(sql)}",
        "compare?sick=no_such_sign",
        "flame?sick=%00",
        "node?id=1",
        "node?id=../x",
    ):
        status_code, headers, body = asked(url + odd)
        assert status_code == 422 and len(body) < 200 and b"Traceback" not in body, odd
        assert headers["content-type"].startswith("text/plain")
