"""driver_reset: one finding a reset, with the queue and its core; from counters alone where the log is silent."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import driver_reset

ENA = "ena 0000:00:05.0 eth0: "
PAUSED = (
    ENA + "TX q 5 is paused for too long (threshold 5000000). usecs since napi 6012000. napi scheduled: 1. napi CPU: 39"
)
EPISODE = [
    PAUSED,
    ENA + "napi handler hasn't been called for a long time but is scheduled",
    ENA + "Trigger reset is on",
    *(f"{ENA}queue_{queue}_tx_cnt: 7" for queue in range(200)),
    "ena 0000:00:05.0: Device reset completed, status: 0, Driver info: ENA v2.17.0g",
]
WATCHDOG = "virtio_net virtio0 zslab9: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5500 ms"


def log(texts: Iterable[str], begin: float = 0.0, every: float = 0.005) -> list[Reading]:
    return [read("kernel_log", "node", 4, at=begin + place * every, text=text) for place, text in enumerate(texts)]


def counted(what: str, values: Iterable[float], nic: str = "eth0", every: float = 10.0) -> list[Reading]:
    return [read(what, f"nic:{nic}", value, at=place * every) for place, value in enumerate(values)]


def case(readings: Iterable[Reading], unseen: dict[str, str] | None = None) -> Case:
    return examine(node(readings, unseen=unseen), signs={"driver_reset": driver_reset}, laws={})


def found(readings: Iterable[Reading]) -> tuple[Finding, ...]:
    return case(readings).findings


def test_a_reset_names_its_queue_its_core_and_why() -> None:
    (reset,) = found(log(EPISODE, begin=-300.0))
    assert reset.subject == "nic:eth0"
    assert reset.says == (
        "was reset by driver ena: transmit stalled on queue 5, polled on cpu 39, 6.0 s since its last poll; "
        "its poll was due but did not run"
    )
    # What was said before the recording began is told with its own time.
    assert reset.span.start == T0 - 300.0 and reset.span.seconds == pytest.approx(0.005 * (len(EPISODE) - 1))
    texts = [it.text for it in reset.evidence]
    assert PAUSED in texts and EPISODE[2] in texts and EPISODE[-1] in texts
    assert len(texts) == 5, "the dump of two hundred counters is one line"


def test_what_the_lab_injected_counts_only_in_its_own_run_and_is_called_so() -> None:
    (real,) = case(log(EPISODE)).findings
    lines = log([f"{line} (injected by zombiescope lab)" for line in EPISODE])
    (injected,) = case([*lines, read("lab_run", "node", 1, 0.0)]).findings
    assert injected.says == f"{real.says}, injected by the lab"
    assert not case(lines).findings


def test_resets_far_apart_are_two_and_close_ones_are_one() -> None:
    assert len(found([*log(EPISODE), *log(EPISODE, begin=9.0)])) == 1
    first, second = found([*log(EPISODE), *log(EPISODE, begin=60.0)])
    assert first.span.end < second.span.start


def test_two_cards_at_once_are_two() -> None:
    lines = [
        it
        for pair in zip(EPISODE, (it.replace("eth0", "eth1").replace(":05", ":06") for it in EPISODE), strict=True)
        for it in pair
    ]
    assert sorted(it.subject for it in found(log(lines))) == ["nic:eth0", "nic:eth1"]


def test_a_hundred_stuck_packets_are_a_few_lines_of_evidence() -> None:
    late = "6000000 usecs from last napi execution, napi scheduled: 1"
    stuck = [f"{ENA}TX hasn't completed, qid {place % 3}, index {place}. {late}" for place in range(300)]
    (reset,) = found(log([*stuck, *EPISODE[2:]]))
    assert "on queue 0, 1, 2" in reset.says and len(reset.evidence) <= driver_reset.SHOWN


def test_the_line_that_names_the_core_is_kept() -> None:
    lost = "[1/2] Lost TX completions are above threshold (1019 > 128), completion timeout: 5000 (msec), 21000 msecs "
    pair = [f"{ENA}{lost}since interrupt, 21000 msecs since napi, qid: 5", f"{ENA}[2/2] qid: 39, napi CPU: 5"]
    (reset,) = found(log([*pair, *EPISODE[2:]]))
    assert "on queue 5, polled on cpu 39, 21.0 s since its last poll" in reset.says
    assert [it.text for it in reset.evidence][:2] == pair


def test_a_device_that_was_renamed_keeps_its_resets_apart() -> None:
    renamed = [line.replace("eth0", "ens5") for line in EPISODE]
    assert [it.subject for it in found([*log(EPISODE), *log(renamed, begin=60.0)])] == ["nic:eth0", "nic:ens5"]
    (unnamed,) = found(log(EPISODE[-1:]))
    assert unnamed.subject == "nic:0000:00:05.0"


def test_a_stall_without_a_reset_is_worded_so() -> None:
    (stall,) = found(log([WATCHDOG]))
    assert stall.subject == "nic:zslab9"
    assert stall.says == "was not reset, but driver virtio_net reports: transmit stalled on queue 0, for 5.5 s"
    (late,) = found(log([ENA + "Keep alive watchdog timeout."]))
    assert late.says == "was not reset, but driver ena reports: the device's keep-alive did not arrive"


def test_the_card_s_own_counters_join_what_the_log_says() -> None:
    steps = [*counted("nic_resets_total", (3, 4, 4)), *counted("nic_poll_starvations_total", (1, 2, 2))]
    (reset,) = found([*log(EPISODE, begin=5.0), *steps])
    figures = [(it.what, it.value) for it in reset.evidence if it.what != "kernel_log"]
    assert figures == [
        ("nic_resets_total", 3),
        ("nic_resets_total", 4),
        ("nic_poll_starvations_total", 1),
        ("nic_poll_starvations_total", 2),
    ]


def test_counters_alone_tell_where_the_log_warns_once_a_boot() -> None:
    quiet = log(["usb 1-1: new device"] * 5, every=10.0)
    (reset,) = found([*quiet, *counted("nic_tx_timeouts_total", (1, 1, 2, 3, 3), every=5.0)])
    assert reset.subject == "nic:eth0" and (reset.span.start - T0, reset.span.end - T0) == (5.0, 15.0)
    assert reset.says == (
        "shows in its counters: transmit timeouts went from 1 to 3; the kernel's log has no line about it"
    )
    assert [it.value for it in reset.evidence] == [1, 3]
    # The second reset, long after the one that the log tells of.
    first, second = found([*log(EPISODE, begin=5.0), *counted("nic_resets_total", (0, 1, 1, 1, 1, 1, 2, 2))])
    assert first.says.startswith("was reset by driver ena") and "resets went from 1 to 2" in second.says


@pytest.mark.parametrize(
    "readings",
    [
        log(["ena 0000:00:05.0 eth0: link up", "total_resets: 0", f"{ENA}total_resets: 3"]),
        counted("nic_resets_total", (7, 7, 7)),
        [*counted("nic_missed_tx_total", (1, 9)), *counted("nic_resets_total", (7, 7))],
        counted("nic_tx_timeouts_total", (12, 12, 12)),
    ],
    ids=["ordinary lines", "old resets", "late packets alone", "old timeouts"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(readings)
    assert not result.findings and result.verdicts[0].evidence


def test_a_log_alone_is_enough_and_counters_of_resets_are() -> None:
    assert case(log(["usb 1-1: new device"])).verdicts[0].state == "clear"
    deaf = {"kernel_log": "operation not permitted"}
    assert case(counted("nic_resets_total", (7, 7)), unseen=deaf).verdicts[0].state == "clear"
    # Only the watchdog's bites are counted: a reset for another reason would go unseen.
    verdict = case(counted("nic_tx_timeouts_total", (7, 7)), unseen=deaf).verdicts[0]
    assert verdict.state == "blind" and "operation not permitted" in verdict.says
