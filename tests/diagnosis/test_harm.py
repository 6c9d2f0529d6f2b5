"""What a finding costs: who is accused, in which order, and that nothing is counted twice."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.diagnosis.costs import LOOKED, MEMORY, SPAN, case, costing, part, sign
from tests.diagnosis.test_examine import law
from tests.nodes import T0

from zombiescope.__main__ import main
from zombiescope.core import Case, Span
from zombiescope.core.harm import Harm
from zombiescope.diagnosis import harm as engine
from zombiescope.diagnosis.examine import examine
from zombiescope.diagnosis.settings import override
from zombiescope.outputs._story import NOT_SURE, OK, PROBLEM, headline
from zombiescope.outputs.json import shape

DAY = 86400.0


def roots(found: Case) -> list[str]:
    return [it.sign for it in found.root_causes]


HARMFUL = {
    "a job failed": costing(part("broken", 1, kind="jobs")),
    "one packet was lost": costing(part("broken", 1, kind="drops")),
    "a twentieth of a core waited": costing(part("waited", 0.05)),
    "a small victim lost a fiftieth": costing(part("waited", 0.01, demand=0.5)),
    "somebody waits for what is burnt": costing(part("burnt", 0.05, contended=0.05)),
    "a hundredth of memory": costing(part("held", MEMORY / 100)),
    "six days left": costing(soon_seconds=6 * DAY, limit="full in 6 days"),
}
HARMLESS = {
    "nothing": costing(),
    "less than a twentieth waited": costing(part("waited", 0.04)),
    "a large victim lost a thousandth": costing(part("waited", 0.04, demand=40.0)),
    "nobody waits for what is burnt": costing(part("burnt", 3.0, contended=0.0)),
    "hardly anything is burnt": costing(part("burnt", 0.04, contended=5.0)),
    "a little memory": costing(part("held", MEMORY / 101)),
    "eight days left": costing(soon_seconds=8 * DAY, limit="full in 8 days"),
}
UNKNOWN = {
    "nothing was measured": Harm(unknown=("waited",)),
    "whether anybody waits is not known": costing(part("burnt", 3.0, contended=None)),
    "known to be little, and not all is known": costing(part("waited", 0.01), unknown=("burnt",)),
}


@pytest.mark.parametrize("harm", HARMFUL.values(), ids=HARMFUL)
def test_who_harms_somebody_is_accused(harm: Harm) -> None:
    found = case(it=harm)
    assert roots(found) == ["it"] and not found.set_aside and headline(found)[0] == PROBLEM
    assert found.costs[0][1].says.startswith("costs ")


@pytest.mark.parametrize("harm", HARMLESS.values(), ids=HARMLESS)
def test_who_harms_nobody_is_noted_and_not_accused(harm: Harm) -> None:
    found = case(it=harm)
    assert not found.root_causes and not found.problems and [it.sign for it in found.noted] == ["it"]
    assert headline(found) == (OK, "all 1 checks looked and found nothing that harms anybody")
    told = shape(found)
    assert told["noted"] == [{"sign": "it", "subject": "thing:0", "says": "is seen"}]
    assert told["findings"][0]["accused"] is False and not told["root_causes"]


@pytest.mark.parametrize("harm", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_never_accuses_and_never_clears(harm: Harm) -> None:
    found = case(it=harm)
    assert not found.root_causes and not found.noted and [it.sign for it in found.unsure] == ["it"]
    assert headline(found) == (
        NOT_SURE,
        "nothing found that harms anybody, but what it costs could not be measured",
    )


def test_a_sign_that_says_nothing_about_harm_is_not_sure() -> None:
    assert [it.sign for it in case(it=Harm(unknown=("broken", "waited", "burnt", "held", "soon"))).unsure]


def test_thresholds_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WAITED", engine.WAITED)  # put back afterwards
    waits = costing(part("waited", 0.2))
    assert roots(case(it=waits)) == ["it"]
    assert override(["harm.WAITED=0.3"]) == ("harm.WAITED=0.3",)
    assert not roots(case(it=waits))


def test_root_causes_are_ranked_by_what_they_broke_and_cost() -> None:
    worst_first = {
        "job": costing(part("broken", 1, kind="jobs")),
        "reset": costing(part("broken", 9, kind="resets")),
        "drops": costing(part("broken", 99_999, kind="drops")),
        "waits": costing(part("waited", 0.3)),
        "burns": costing(part("burnt", 3.0)),
        "crashes": costing(part("broken", 500, kind="crashes")),
        "soon": costing(soon_seconds=60.0, limit="full in 1 min"),
        "later": costing(soon_seconds=DAY, limit="full in 1 day"),
        "held": costing(part("held", MEMORY / 2)),
    }
    for seed in range(20):
        names = list(worst_first)
        random.Random(seed).shuffle(names)
        assert roots(case("", {name: worst_first[name] for name in names})) == list(worst_first)


def test_of_two_faults_at_once_the_larger_comes_first_always() -> None:
    """0.2 and 0.8 cores, in any order, measured with an error of a tenth."""
    for seed in range(20):
        chance = random.Random(seed)
        sizes = {"small": 0.2, "large": 0.8}
        names = list(sizes)
        chance.shuffle(names)
        said = {it: costing(part("waited", sizes[it] * chance.uniform(0.9, 1.1), f"cgroup:/{it}")) for it in names}
        assert roots(case("", said)) == ["large", "small"]


def test_a_longer_chain_breaks_a_tie() -> None:
    waits = costing(part("waited", 0.5))
    found = case("a_to_b", alone=sign(costing(part("waited", 0.5, "process:x[1]")), span=SPAN), a=costing(), b=waits)
    assert roots(found) == ["a", "alone"]


def test_a_cause_carries_what_follows_from_it() -> None:
    found = case(
        "leak_to_walk walk_to_reset",
        leak=costing(part("held", 1e6, "controller:memory")),
        walk=costing(part("burnt", 0.6, "process:kubelet[8]")),
        reset=costing(part("broken", 3, "nic:eth0", kind="resets"), part("waited", 1.3)),
    )
    (root,) = found.root_causes
    harm = found.cost_of(root)
    assert harm.says == "costs 1.9 of 4 cores (trainer waits 1.3, kubelet burns 0.6), 3 resets, since 21:20"
    assert shape(found)["root_causes"][0]["harm"] == {
        "broken": {"resets": 3},
        "waited_cores": 1.3,
        "burnt_cores": 0.6,
        "held_bytes": 1_000_000,
        "soon_seconds": None,
        "whom": ["process:trainer[7]", "nic:eth0"],
        "unknown": [],
        "says": harm.says,
    }


IN_A, IN_B, ON_3 = ("cgroup:/a",), ("cgroup:/a/b",), ("cpu:3",)
TWICE = {
    "a process in its throttled cgroup": ("waited", 0.9, [("cgroup:/a/b", 0.9, ()), ("process:x[1]", 0.8, IN_B)]),
    "a process whose cgroup is below": ("waited", 0.9, [("cgroup:/a", 0.9, ()), ("process:x[1]", 0.8, IN_B)]),
    "a cgroup below a cgroup": ("waited", 0.9, [("cgroup:/a", 0.9, ()), ("cgroup:/a/b", 0.7, ())]),
    "two processes that waited more": (
        "waited",
        1.6,
        [("cgroup:/a", 0.9, ()), ("process:x[1]", 0.8, IN_A), ("process:y[2]", 0.8, IN_A)],
    ),
    "a walker on the core that it saturates": ("burnt", 0.98, [("process:k[8]", 0.97, ON_3), ("cpu:3", 0.98, ())]),
    "a core of the node": ("burnt", 1.5, [("cpu:3", 0.98, ()), ("node", 1.5, ())]),
    "the same thread, said twice": ("waited", 0.5, [("thread:ksoftirqd/3", 0.5, ()), ("thread:ksoftirqd/3", 0.4, ())]),
    "another cgroup whose name begins alike": ("waited", 1.0, [("cgroup:/a", 0.5, ()), ("cgroup:/ab", 0.5, ())]),
    "two threads": ("waited", 1.1, [("process:x[1]", 0.5, ()), ("process:y[2]", 0.6, ())]),
}


@pytest.mark.parametrize(("figure", "total", "pieces"), TWICE.values(), ids=TWICE)
def test_nothing_is_counted_twice_along_a_chain(
    figure: str, total: float, pieces: list[tuple[str, float, tuple[str, ...]]]
) -> None:
    names = [f"s{place}" for place in range(len(pieces))]
    harms = {
        name: costing(part(figure, amount, who, within=within))
        for name, (who, amount, within) in zip(names, pieces, strict=True)
    }
    joined = " ".join(f"{cause}_to_{effect}" for cause, effect in itertools.pairwise(names))
    found = case(joined, harms)
    (root,) = found.root_causes
    harm = found.cost_of(root)
    assert (harm.waited_cores if figure == "waited" else harm.burnt_cores) == pytest.approx(total)


def test_a_cost_is_over_the_time_in_which_it_is_paid() -> None:
    """Two bursts of 2 s in a look of 10 s: 0.9 cores while they last, and not 0.36."""
    bursts = [part("waited", 0.9, span=Span(T0 + at, T0 + at + 2)) for at in (1, 6)]
    assert case(it=costing(*bursts)).costs[0][1].waited_cores == pytest.approx(0.9)


def test_what_two_causes_claim_is_counted_once_on_the_node() -> None:
    """The same process waits for its quota and for a real-time hog: together no more than it waited."""
    victim = part("waited", 0.9, within=("cgroup:/a",))
    found = case(
        quota=costing(part("waited", 0.9, "cgroup:/a")),
        hog=costing(victim),
        other=costing(part("waited", 0.4, "process:o[3]")),
    )
    assert sum(found.cost_of(it).waited_cores or 0.0 for it in found.root_causes) == pytest.approx(1.3)
    assert len(found.root_causes) == 3


def test_broken_things_are_counted_once_by_kind_and_by_what_broke() -> None:
    later = Span(T0 + 8, T0 + 9)
    found = case(
        "a_to_b",
        a=costing(part("broken", 2, "nic:eth0", kind="resets", span=Span(T0, T0 + 2))),
        b=costing(
            part("broken", 2, "nic:eth0", kind="resets", span=Span(T0 + 1, T0 + 3)),
            part("broken", 1, "nic:eth0", kind="resets", span=later),
            part("broken", 1, "nic:eth1", kind="resets", span=later),
        ),
    )
    assert dict(found.costs[0][1].broken) == {"resets": 4}


def test_the_effect_belongs_to_the_strongest_and_a_rival_says_what_would_be() -> None:
    """Both could have starved the thread; its wait is counted for one of them only."""
    signs = {
        "quota": sign(costing()),
        "hog": sign(costing()),
        "starved": sign(costing(part("waited", 0.9)), symptom=True),
    }
    laws = {"quota_to_starved": law("mechanism"), "hog_to_starved": law("place")}
    found = examine(LOOKED, signs=signs, laws=laws, questions={}, remedies={})
    by_sign = {it.sign: found.cost_of(it) for it in found.findings}
    assert roots(found) == ["quota"] and by_sign["quota"].waited_cores == 0.9
    assert by_sign["hog"].says.startswith("would cost 0.9 of 4 cores (trainer waits 0.9)")
    assert [it.sign for it in found.noted] == ["hog"], "and it harms nobody by itself"


def test_unknown_figures_are_null_and_named() -> None:
    told = shape(case(it=costing(part("waited", 0.4), unknown=("burnt", "soon"))))["root_causes"][0]["harm"]
    assert told["burnt_cores"] is None and told["unknown"] == ["burnt", "soon"] and told["held_bytes"] == 0
    assert told["says"].endswith("since 21:20; not measured: CPU burnt, growth")


def test_three_are_named_and_the_rest_counted() -> None:
    many = costing(*(part("waited", 0.5 + place / 10, f"process:w{place}[{place}]") for place in range(5)))
    (root,) = (found := case(it=many)).root_causes
    assert (
        found.cost_of(root).says
        == "costs 3.5 of 4 cores (w4 waits 0.9, w3 waits 0.8, w2 waits 0.7 and 2 more), since 21:20"
    )
    assert shape(found)["root_causes"][0]["harm"]["whom"] == ["process:w4[4]", "process:w3[3]", "process:w2[2]"]


def test_hostile_names_are_harmless_in_the_words() -> None:
    said = case(it=costing(part("waited", 0.5, "process:\x1b[31mx\n[7]"))).costs[0][1].says
    assert "\x1b" not in said and "\n" not in said


def test_the_thresholds_are_explained_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "harm"]) == 0
    said = capsys.readouterr().out
    for name in ("WAITED = 0.05", "DEMAND = 0.01", "BURNT = 0.05", "CONTENDED = 0.05", "HELD = 0.01", "SOON = 604800"):
        assert f"  {name}   " in said
