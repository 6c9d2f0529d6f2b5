"""The resident itself: one loop over signals, sockets and the pipes of its two children. Standard library only.

recorder   `zombiescope record DIR`: writes the recording
examiner   looks at the last minutes of it when asked
this       asks, follows findings, writes events, serves metrics; small, and never waits for anybody
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from zombiescope import __version__
from zombiescope.agent import commands, local_socket
from zombiescope.agent.access import Access
from zombiescope.agent.asking import Asking
from zombiescope.agent.budget import FIRST
from zombiescope.agent.children import Child
from zombiescope.agent.cost import Cost
from zombiescope.agent.events import POSTS, Events
from zombiescope.agent.forms import FORMS
from zombiescope.agent.listening import listen, listen_anew
from zombiescope.agent.live_page import LivePage
from zombiescope.agent.metrics import Metrics, Own
from zombiescope.agent.output import Output
from zombiescope.agent.pages import pages
from zombiescope.agent.profiles import SETTINGS as PUSHES
from zombiescope.agent.profiles import Profiles
from zombiescope.agent.remedies import Remedies
from zombiescope.agent.serving import Later, Response, Server
from zombiescope.agent.settings import Settings
from zombiescope.agent.settle_first import SettleFirst
from zombiescope.agent.severity import only_reboot
from zombiescope.agent.shipping import Shipping
from zombiescope.agent.systemd import Systemd
from zombiescope.agent.turns import Turns
from zombiescope.agent.written import Written
from zombiescope.core import UserError, harmless
from zombiescope.places.own_python import STORES

DRAINS = 10.0  # seconds for the recorder to write its last segment
POSTING = 5.0  # seconds for what still waits to be posted
LATE = 3.0  # times the pause between looks: later than that it is not healthy


class Resident:
    """Made of settings, and of a function that reads them anew."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings]) -> None:
        self.settings, self._reread = settings, reread
        self.out = Output(settings.log_format)
        self._systemd = Systemd()
        self._events = Events(settings, self.out)  # takes the lock of DIR/agent
        self._access = Access(settings, self.out)
        self._metrics = Metrics(events=self._events.counts)
        self._started = time.time()
        self._node = os.uname().nodename
        self._selector = selectors.DefaultSelector()
        self._recorder = Child(
            self._selector, "recorder", lambda: commands.recorder(self.settings), self._recorder_said
        )
        examiner = partial(Child, bodies=True, knows=STORES)
        self._examiner = examiner(
            self._selector, "examiner", lambda: commands.examiner(self.settings), self._examiner_said
        )
        self._asking = Asking(self._examiner.send)
        self._profiles = Profiles(self.out)
        self._shipping = Shipping(self._examiner.send, self.out)
        self._live_page = LivePage(self._node)
        self._remedies = Remedies(settings, self._selector, self.out)
        self._server = Server(self._selector, pages(self, self._access.refused))
        self._turns = Turns(settings.every, SettleFirst(self._examiner.send))
        self._cost = Cost((self._recorder, self._examiner), settings.every)
        self._trouble = "not looked yet"  # why there is no fresh look
        self._written = Written(self._metrics, self._own)
        self._signals: list[int] = []

    # What is served (pages.Shown)

    def forms(self) -> Sequence[str]:
        return FORMS if self.settings.native_histograms == "on" else FORMS[1:]

    def metrics(self, form: str) -> bytes:
        return self._written.text(form, self.settings)

    def health(self) -> list[str]:
        """Why it cannot be relied on now; before its first look nobody knows whether it can look at all."""
        children = (self._recorder, self._examiner)
        troubles = [f"the {it.name} does not run: {it.failing}" for it in children if it.failing]
        late = time.time() - max(self._metrics.last_look, self._started) > LATE * max(self._turns.pause, FIRST)
        return troubles + ([self._trouble or "no look for too long"] if self._trouble or late else [])

    def case(self) -> str:
        return str(self._metrics.last.get("case", ""))

    def going_on(self) -> list[dict[str, Any]]:
        return self._events.going_on

    def events(self) -> list[dict[str, Any]]:
        return self._events.newest

    def needs_reboot(self) -> list[str]:
        return [] if self.health() else only_reboot(self._metrics.last.get("findings", []))

    def remedies(self) -> list[dict[str, Any]]:
        return self._remedies.newest

    def page_file(self, name: str) -> Response:
        return self._live_page.file(name)

    def ask(self, question: Mapping[str, Any], kind: str) -> Response | Later:
        return self._asking.ask(question, kind)

    def run(self) -> int:
        """Until SIGTERM or SIGINT; what goes on then is still going on after the next start."""
        waker, woken = socket.socketpair()
        for end in (waker, woken):
            end.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda it, _: self._signals.append(it))
        self._selector.register(waker, selectors.EVENT_READ, lambda _: waker.recv(4096))
        listen(self._server.listeners, self.settings, self._access, self.out)
        self._events.connect(self.settings, self._node)
        self._profiles.connect(self.settings)
        self._shipping.use(self.settings, self._node)
        now = time.monotonic()
        self._recorder.start(now)
        self._examiner.start(now)
        self._remedies.begin()
        self._systemd.say("READY=1", f"STATUS=recording into {self.settings.dir}")
        self.out.log(f"zombiescope {__version__} records into {self.settings.dir}")
        while not self._stopped():
            for key, mask in self._selector.select(self._tick()):
                key.data(mask)
        self._drain()
        return 0

    def _stopped(self) -> bool:
        taken, self._signals = self._signals, []
        if signal.SIGHUP in taken:
            self._reload()
        return signal.SIGTERM in taken or signal.SIGINT in taken

    def _tick(self) -> float:
        """Whatever is due; seconds until something is."""
        now = time.monotonic()
        parts = (self._server, self._events, self._profiles, self._systemd, self._asking, self._shipping)
        waits = [it.tick(now) for it in parts]
        for news in self._server.listeners.news():
            self.out.log(news, "error")
        waits += [self._kept_alive(child, now) for child in (self._recorder, self._examiner)]
        turns = self._turns
        if turns.hangs(now):
            self.out.log("the examiner does not answer: it is started anew", "error")
            self._examiner.kill()
            turns.lost()
        if self._examiner.up and turns.due(now):
            self._ask(now)
        if self._examiner.up and not turns.waits:
            waits.append(turns.soonest(now))
        return max(min(waits), 0.01)

    def _kept_alive(self, child: Child, now: float) -> float:
        was_up, starts, ended = child.up, child.starts, child.ended
        waits = child.tick(now)
        if (was_up and (not child.up or child.starts != starts)) or child.ended != ended:
            self.out.log(f"the {child.name} ended: {child.ended}; it is started anew", "error")
            if child is self._examiner:
                self._turns.lost()
                self._shipping.asked = False
                self._asking.gone("the examiner ended")
        return waits

    def _recorder_said(self, stream: str, line: bytes, _: bytes) -> None:
        if stream == "stderr":
            self.out.log(f"recorder: {line.decode('utf-8', 'surrogateescape').strip()}")
        elif self._turns.alarm(time.monotonic(), self.settings.every):
            self.out.log(f"looks sooner, as something crashed: {harmless(line.decode('ascii', 'replace'), most=300)}")

    def _examiner_said(self, stream: str, line: bytes, body: bytes) -> None:
        if stream == "stderr":
            self.out.log(f"examiner: {line.decode('utf-8', 'surrogateescape')}", "warning")
            return
        try:
            said = json.loads(line)
        except ValueError:
            self.out.log("the examiner's answer is damaged: it is started anew", "error")
            self._examiner.kill()
            return
        if said.get("do") == "serve":
            self._asking.heard(said, body)
        elif said.get("do") == "ship":
            self._shipping.heard(said)
        elif said.get("do") == "settle":
            self._turns.settled()
            if said.get("error", "busy") != "busy":
                self.out.log(f"could not settle, what was captured is kept: {said['error']}", "warning")
        else:
            self._looked(said)
            self._profiles.looked(said.get("push", {}), body)

    def _ask(self, now: float) -> None:
        since = min(max(self._metrics.last_look, self._started), time.time())  # the clock may have been set back
        question = {"do": "look", "window": self.settings.window, "since": since, "push": self._profiles.wanted()}
        if self._examiner.send(json.dumps(question).encode() + b"\n"):
            self._turns.asked(now, self._cost.every, self._examiner.pid)
        else:
            self._turns.next = now + self._cost.every

    def _looked(self, look: dict[str, Any]) -> None:
        cpu = look.get("cpu_seconds", 0.0)
        if self._cost.looked(cpu, self.settings, self._asking.cpu_seconds):
            every = f"the next one is in {self._cost.every:.0f} s, to keep to the budget"
            self.out.log(f"a look costs {cpu:.2f} s of CPU: {every}")
        self._turns.looked(self._cost.every, self.settings.every)
        trouble = look.get("error") or look.get("stale") or ""
        if trouble:
            self._metrics.failed_looks += 1
            if trouble != self._trouble:
                self.out.log(f"could not look: {trouble}", "warning")
            self._trouble = trouble
        else:
            self._trouble = ""
            self._node = look["node"] or self._node
            self._metrics.look(look)
            self._events.looked(look, self._node)
            self._remedies.looked(look["findings"])
        self._written.looked(self.settings, self.out)

    def _reload(self) -> None:
        """What is wrong in the new settings leaves the old ones in force."""
        self._systemd.reloading()
        try:
            new = self._reread()
            if new.dir != self.settings.dir:
                raise UserError("dir: cannot change while it runs: restart the agent")
            self._access.use(new)
        except UserError as error:
            self.out.log(f"not reloaded, the old settings stay: {error}", "error")
        else:
            old, self.settings = self.settings, new
            self._apply(old, new)
            self.out.log("reloaded")
        self._systemd.say("READY=1")

    def _apply(self, old: Settings, new: Settings) -> None:
        self.out.use(new.log_format)
        self._remedies.use(new)
        self._shipping.use(new, self._node)
        self._cost.every = new.every
        self._turns.next = min(self._turns.next, time.monotonic() + new.every)
        listen_anew(self._server.listeners, old, new, self._access, self.out)
        if any(getattr(old, it) != getattr(new, it) for it in commands.RECORDED):
            self._recorder.restart(time.monotonic())
        if old.set != new.set:
            self._examiner.restart(time.monotonic())
            self._turns.lost()
        if any(getattr(old, it) != getattr(new, it) for it in POSTS):
            self._events.disconnect(0.0)
            self._events.connect(new, self._node)
        if any(getattr(old, it) != getattr(new, it) for it in PUSHES):
            self._profiles.disconnect(0.0)
            self._profiles.connect(new)

    def _drain(self) -> None:
        self._systemd.say("STOPPING=1")
        self.out.log("stopping: the recorder writes its last segment")
        self._server.close()
        local_socket.remove(self._access.folder)
        self._remedies.close()
        self._examiner.stop(1.0)
        self._recorder.stop(DRAINS)
        self._events.disconnect(POSTING)
        self._profiles.disconnect(0.0)
        self._events.close()

    def _own(self) -> Own:
        return Own(
            cpu_seconds=round(self._cost.cpu_seconds, 2),
            memory=self._cost.memory,
            recorder_up=self._recorder.up,
            recorder_starts=self._recorder.starts,
            every=self._cost.every,
            lost=self._events.lost,
            pushed=self._profiles.sent,
            not_pushed=self._profiles.lost,
            shipped=self._shipping.counts,
            to_ship=self._shipping.waiting,
            remedies=self._remedies.results,
        )
