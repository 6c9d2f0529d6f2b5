"""Questions to the stacks of a recording: answers as by going through every sample."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes import T0, Sampled, node, read

from zombiescope.core import Span
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_processes import processes
from zombiescope.knowledge.functions import visits, walked_in, walks

WALK = "start;read;ksys_read;memory_stat_show;css_rstat_flush;_raw_spin_unlock_irq"
WALK_ALL = "start;read;ksys_read;memcg_numa_stat_show;mem_cgroup_node_nr_lru_pages"  # before Linux 5.8
PRINT = "start;read;ksys_read;memory_stat_show;memcg1_stat_format;seq_buf_printf"
SPIN = "main;spin"

SAMPLES = st.lists(
    st.tuples(
        st.integers(0, 1000).map(lambda it: it / 10),
        st.integers(0, 3),
        st.sampled_from(["kubelet[7]", "python[9]", "kworker/1:0[11]"]),
        st.sampled_from([WALK, PRINT, SPIN]),
    ),
    min_size=1,
    max_size=60,
)


@given(SAMPLES, st.integers(0, 3), st.integers(0, 100), st.integers(0, 100))
def test_answers_are_those_of_going_through_every_sample(
    samples: list[Sampled], cpu: int, start: int, length: int
) -> None:
    span = Span(T0 + start + 0.05, T0 + start + length + 0.05)
    found = node([], samples=samples).samples(span, cpu=cpu, wanted=walks)
    true = [it for it in samples if span.holds(T0 + it[0]) and it[1] == cpu and it[3] != SPIN]
    assert len(found) == len(true) and found.seconds == pytest.approx(len(true) / 100)
    assert Counter(f"{name}[{pid}]" for name, pid, own in processes(found) for _ in range(len(own))) == Counter(
        it[2] for it in true
    )


def test_a_sample_that_ends_a_gap_stands_for_all_of_it() -> None:
    gaps = [read("core_gap_seconds", "cpu:1", 0.3, 1.0)]
    samples = node(gaps, samples=[(1.3, 1, "kubelet[7]", WALK), (1.31, 1, "python[9]", SPIN)]).samples()
    assert samples.weight.tolist() == [295_000_000, 10_000_000]
    assert samples.weight_seconds.tolist() == [0.295, 0.01]
    assert processes(samples)[0][0] == "kubelet" and samples.reading("process:x").value == pytest.approx(0.305)


def test_no_stacks_is_no_samples() -> None:
    nothing = Timeline().samples()
    assert len(nothing) == 0 and nothing.seconds == 0 and nothing.hottest() == () and processes(nothing) == []
    assert len(nothing.where(walks)) == 0 and len(nothing.within(Span(0, 1))) == 0
    assert len(nothing.at_seconds) == len(nothing.weight_seconds) == len(nothing.pid) == len(nothing.frames) == 0


def test_what_a_walk_is_known_by() -> None:
    old = ("read", "memcg_numa_stat_show", "mem_cgroup_nr_lru_pages.constprop.0")
    assert visits(old) and walked_in(old) == "mem_cgroup_nr_lru_pages"
    assert walks(tuple(PRINT.split(";"))) and not visits(tuple(PRINT.split(";")))
    assert not walks(tuple(SPIN.split(";")))
