"""Families: what machines make up is put in brackets, what people named stays, and many alike are learnt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.cgroups.families import belongs_to, families, family
from zombiescope.cgroups.learnt_names import MANY
from zombiescope.probes import cgroup_events

ID = "5f0c2b7ad1e9" * 5 + "abcd"
RUN = f"run-r{'0a1b2c3d' * 4}.scope"
POD = "3f2cd8a1-0b1c-4d2e-8f90-a1b2c3d4e5f6"


@pytest.mark.parametrize(
    ("path", "name", "owner"),
    [
        (f"/docker/{ID}", "/docker/<id>", f"container:{ID}"),
        ("/docker/" + "7" * 64, "/docker/<id>", "container:" + "7" * 64),
        (f"/kubepods/burstable/pod{POD}/{ID}", "/kubepods/burstable/pod<uid>/<id>", f"container:{ID}"),
        (f"/kubepods/burstable/pod{POD}", "/kubepods/burstable/pod<uid>", f"pod:{POD}"),
        (
            f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            "/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope",
            f"container:{ID}",
        ),
        ("/system.slice/ecs.service", "/system.slice/ecs.service", "unit:ecs.service"),
        (f"/system.slice/{RUN}", "/system.slice/run-r<id>.scope", f"unit:{RUN}"),
        ("/system.slice/run-u4711.service", "/system.slice/run-u<n>.service", "unit:run-u4711.service"),
        (
            "/user.slice/user-1.slice/session-12.scope",
            "/user.slice/user-<n>.slice/session-<n>.scope",
            "unit:session-12.scope",
        ),
        ("/mine/job-deadbeef", "/mine/job-deadbeef", "cgroup:/mine"),
        ("/ecs/task-17/x", "/ecs/task-<n>/x", "cgroup:/ecs"),
    ],
)
def test_known_makers(path: str, name: str, owner: str) -> None:
    assert (family(path), belongs_to(path)) == (name, owner)


def word(number: int) -> str:
    """Letters only, as some generators make them: no rule about digits catches these."""
    letters = "bcdghjklmnpqrstvwxyz"
    return "".join(letters[number // len(letters) ** place % len(letters)] for place in range(5))


def test_many_alike_are_learnt_and_given_names_stay() -> None:
    paths = [f"/jobs/task-{word(number)}" for number in range(3 * MANY)] + ["/jobs/alpha", "/jobs/beta"]
    assert set(families(paths).values()) == {"/jobs/task-*", "/jobs/alpha", "/jobs/beta"}


def test_a_few_alike_are_left_as_they_are() -> None:
    paths = [f"/jobs/task-{word(number)}" for number in range(MANY // 2)]
    assert families(paths) == {path: path for path in paths}


def test_many_children_without_a_common_beginning_are_one_family() -> None:
    paths = [f"/system.slice/ecs.service/{word(number)}" for number in range(3 * MANY)]
    assert set(families(paths).values()) == {"/system.slice/ecs.service/*"}


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    number = number * 7_919 % 36**5
    return "".join(digits[number // 36**place % 36] for place in range(5))


def ulid(number: int) -> str:
    return f"01ARZ3NDEKTSV4RRFFQ6{number:06d}".translate(str.maketrans("13579", "GHJKM"))


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        ([f"/agent/run-{number:x}" for number in range(500)], "/agent/run-*"),
        ([f"/agent/{number * 7919:04x}" for number in range(500)], "/agent/*"),
        ([f"/agent/{base36(number)}.scope" for number in range(100)], "/agent/*.scope"),
        ([f"/agent/job-{base36(number)}-{base36(number + 9)}" for number in range(100)], "/agent/job-*"),
        ([f"/agent/task-{base36(number)}/init" for number in range(100)], "/agent/task-*/init"),
        ([f"/agent/{ulid(number)}" for number in range(3)], "/agent/<id>"),
        (
            [f"/agent/web-api-{it}" for it in ("7d9f8b6c5-x2x7q", "7d9f8b6c5-bbbbb", "1234567890-zz8zz")],
            "/agent/web-api-<id>",
        ),
        ([f"/system.slice/run-u{number}.service" for number in range(100)], "/system.slice/run-u<n>.service"),
    ],
)
def test_one_agent_is_one_family_whatever_its_alphabet(paths: list[str], name: str) -> None:
    assert set(families(paths).values()) == {name}


def test_two_agents_and_what_people_named_stay_apart() -> None:
    services = [
        *("journald", "udevd", "logind", "resolved", "networkd", "timesyncd", "hostnamed", "oomd", "machined", "homed"),
        *("userdbd", "portabled", "modules-load", "sysctl", "tmpfiles-setup", "random-seed", "update-utmp", "pstore"),
        *("remount-fs", "vconsole-setup", "binfmt"),
    ]
    named = [f"/system.slice/{head}{it}.service" for it in services for head in ("systemd-", "")]
    agents = [f"/x/web-{which}-{base36(number)}" for which in ("api", "db") for number in range(100)]
    found = families([*named, *agents, "/x/web-server"])
    assert [found[it] for it in named] == named
    assert {found[it] for it in agents} == {"/x/web-api-*", "/x/web-db-*"} and found["/x/web-server"] == "/x/web-server"


def test_counts_of_the_first_names_join_the_family_that_is_learnt() -> None:
    counts = cgroup_events._Counts()
    for number in range(300):
        counts.add("cgroup_births_total", f"/agent/run-{number:x}")
        counts.add("cgroup_births_total", "/system.slice/ecs.service")
    told = {it.subject: it.value for it in counts.readings(0.0, "")}
    assert told == {"family:/agent/run-*": 300, "family:/system.slice/ecs.service": 300}


@given(
    st.lists(st.text(st.characters(blacklist_characters="\0/"), min_size=1, max_size=30).map(lambda name: f"/a/{name}"))
)
def test_every_path_has_one_family_below_the_same_parent(paths: list[str]) -> None:
    found = families(paths)
    assert set(found) == set(paths)
    assert all(name.startswith("/a/") for name in found.values())
