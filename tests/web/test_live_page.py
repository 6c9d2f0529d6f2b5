"""The page that a running agent serves, in a real browser: it follows by itself, and shows any range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.agent.running import Agent, running
from tests.web.viewer import Viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    secret = tmp_path_factory.mktemp("secret") / "token"
    secret.write_text(TOKEN + "\n")
    secret.chmod(0o600)
    with running(tmp_path_factory.mktemp("rec"), "--token-file", str(secret), "--hz", "19") as it:
        it.until(lambda: it.said("records into"))
        it.until(lambda: (it.folder / "meta.json").exists())
        yield it


@pytest.fixture
def viewer(browser: Browser, agent: Agent) -> Iterator[Viewer]:
    """The password is what a browser asks a person for."""
    context = browser.new_context(http_credentials={"username": "any", "password": TOKEN})
    viewer = Viewer(context.new_page())
    # Fifteen seconds are long for a test: here it follows every second.
    hurried = "const real = setInterval; window.setInterval = (act, time) => real(act, Math.min(time, 1000));"
    viewer.page.add_init_script(hurried)
    yield viewer
    refused = "401 (Unauthorized)"  # before the browser sends the password
    assert not [it for it in viewer.said if refused not in it]
    own = f"http://127.0.0.1:{agent.port}/page/"
    assert all(it.startswith((own, "data:")) for it in viewer.asked)
    context.close()


def _open(viewer: Viewer, agent: Agent, query: str = "") -> None:
    """As soon as the recorder has written two samples."""
    address = f"http://127.0.0.1:{agent.port}/page/{query}"

    def there() -> bool:
        viewer.page.goto(address)
        viewer.page.wait_for_selector("html[data-ready], .broken", timeout=150_000)
        return bool(viewer.page.query_selector("html[data-ready]"))

    agent.until(there)
    viewer.said.clear()  # 503 while nothing was recorded


def test_it_follows_by_itself_unless_somebody_is_at_work_on_it(viewer: Viewer, agent: Agent) -> None:
    _open(viewer, agent)
    first = viewer.ask("state.whole.end")
    viewer.page.wait_for_function(f"() => window.zombiescope.state.whole.end > {first}", timeout=150_000)
    assert "updated" in (viewer.page.text_content(".live [role=status]") or "")
    viewer.ask("state.choose({start: 0, end: 1e9})")
    viewer.page.wait_for_function(
        "() => document.querySelector('.live [role=status]').textContent.startsWith('waits')", timeout=150_000
    )
    before = viewer.ask("state.whole.end")
    assert viewer.range("chosen") == (0.0, 1.0) and viewer.ask("state.whole.end") == before
    viewer.page.click("#follow")
    assert viewer.page.text_content("#follow") == "paused"


def test_a_range_is_fetched_alone(viewer: Viewer, agent: Agent) -> None:
    _open(viewer, agent)
    origin = int(viewer.ask("state.bundle.header.origin")) // 10**9
    end = int(viewer.ask("state.whole.end")) // 10**9
    _open(viewer, agent, f"?from={origin + 1}&to={origin + end - 1}")
    assert int(viewer.ask("state.bundle.header.origin")) // 10**9 >= origin
    assert int(viewer.ask("state.whole.end")) // 10**9 <= end
    assert not viewer.page.query_selector("#follow")  # it stays as it is
    assert any(f"bundle?from={origin + 1}&to=" in it for it in viewer.asked)
    assert viewer.ask("state.bundle.header.case.state")


def test_without_the_password_nothing_is_shown(browser: Browser, agent: Agent) -> None:
    context = browser.new_context(http_credentials={"username": "any", "password": TOKEN + "x"})
    page = context.new_page()
    answers = [page.request.get(f"http://127.0.0.1:{agent.port}/page/{it}") for it in ("", "page.js", "bundle")]
    assert [it.status for it in answers] == [401, 401, 401]
    context.close()


def test_its_files_carry_the_policy(agent: Agent) -> None:
    from urllib.request import Request, urlopen

    request = Request(f"http://127.0.0.1:{agent.port}/page/", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=20) as answer:
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Content-Type-Options"] == "nosniff"
