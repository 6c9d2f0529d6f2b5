"""fork_storm: more forks than any build makes, with whose children they are; builds and scripts are silent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.nodes import Sampled, cores, node, read

from zombiescope.core.model import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import fork_storm


def case(
    per_second: float,
    *,
    seconds: int = 8,
    processors: int = 2,
    more: tuple[Reading, ...] = (),
    samples: Sequence[Sampled] = (),
) -> Case:
    readings = cores({cpu: [{}] * 4 for cpu in range(processors)})
    readings += [read("forks_total", "node", 9000 + per_second * at / 4, at / 4) for at in range(seconds * 4 + 1)]
    return examine(node([*readings, *more], samples=samples), signs={"fork_storm": fork_storm}, laws={})


def test_a_storm_is_found_and_whose_children_it_is() -> None:
    what = "process_children_seconds_total"
    whose = (
        read(what, "process:make[5]", 10, 0.5),
        read(what, "process:make[5]", 10.2, 5.0),
        read(what, "process:sh[7]", 1, 0.5),
        read(what, "process:sh[7]", 4, 5.0),
    )
    (found,) = case(2500, more=whose).findings
    assert found.says == "made 2,500 processes or threads a second for 8.0 s; children of sh[7] used most CPU time"
    assert [it.what for it in found.evidence] == ["forks_per_second", what]


FORKS = "main;fork;do_syscall_64;kernel_clone;copy_process"


def test_who_forks_is_named_by_the_stacks() -> None:
    taken = [(at / 100, 0, "ci[5]" if at % 4 else "cron[9]", FORKS) for at in range(800)]
    (found,) = case(2500, samples=taken).findings
    assert found.culprit == "process:ci[5]" and "most are made by ci[5]" in found.says
    assert found.subject == "node" and "copy_process" in found.evidence[-1].text


def test_where_everybody_forks_nobody_is_named() -> None:
    taken = [(at / 100, 0, f"a{at % 5}[{5 + at % 5}]", FORKS) for at in range(800)]
    (found,) = case(2500, samples=taken).findings
    assert not found.culprit and "most are made" not in found.says


def test_the_children_s_parent_is_named_with_its_container() -> None:
    what, group = "process_children_seconds_total", "/docker/" + "5f0c2b7ad1e9" * 5 + "abcd"
    rose = (read(what, "process:sh[7]", 1, 0.5), read(what, "process:sh[7]", 4, 5.0))
    (found,) = case(2500, more=(*rose, read("process_in_cgroup", "process:sh[7]", 1, 2.0, group))).findings
    assert "children of sh[7] of container 5f0c2b7ad1e9 (docker) used most CPU time" in found.says
    assert found.culprit == "process:sh[7]"


def test_without_a_suspect_it_is_a_storm_still() -> None:
    (found,) = case(2500).findings
    assert found.says == "made 2,500 processes or threads a second for 8.0 s"


@pytest.mark.parametrize(
    ("per_second", "seconds", "processors"),
    [(65, 8, 2), (600, 8, 2), (2500, 2, 2), (3500, 8, 8), (9000, 8, 192)],
    ids=["make -j2", "one-line files", "a service that starts", "a build on eight cores", "a large builder"],
)
def test_silent(per_second: float, seconds: int, processors: int) -> None:
    result = case(per_second, seconds=seconds, processors=processors)
    assert not result.findings and result.verdicts[0].state == "clear"
    assert result.verdicts[0].says == f"{per_second:,.0f} new processes or threads a second"


def test_even_a_large_node_has_its_limit() -> None:
    assert case(30_000, processors=192).findings
    assert not case(6_000, processors=192).findings, "a builder"
