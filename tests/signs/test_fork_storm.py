"""fork_storm: more forks than any build makes, with whose children they are; builds and scripts are silent."""

from __future__ import annotations

import pytest
from tests.nodes import cores, node, read

from zombiescope.core.model import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import fork_storm


def case(per_second: float, *, seconds: int = 8, processors: int = 2, more: tuple[Reading, ...] = ()) -> Case:
    readings = cores({cpu: [{}] * 4 for cpu in range(processors)})
    readings += [read("forks_total", "node", 9000 + per_second * at / 4, at / 4) for at in range(seconds * 4 + 1)]
    return examine(node([*readings, *more]), signs={"fork_storm": fork_storm}, laws={})


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
    assert case(25_000, processors=192).findings
