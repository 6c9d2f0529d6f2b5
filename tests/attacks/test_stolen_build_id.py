"""Build-ids are chosen by who makes a file: one with the build-id of another names no functions but its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.naming.programs import LOADER, compiled, library, name_at, needs_root, running

from zombiescope.naming.elf import Elf
from zombiescope.naming.namer import Namer

pytestmark = pytest.mark.beside

TMPFS = "mount -t tmpfs none {at} && cp {file} {at}/libwalk.so && exec {loader} {at}/libwalk.so {name}"


@pytest.fixture
def loader(tmp_path: Path) -> Path:
    needs_root()
    return compiled(LOADER, tmp_path / "loader")


def stolen(honest: Path, into: Path) -> Path:
    """A library with a function of its own at the same place, and the build-id of another."""
    hostile = library("hostile_walk_", into, salt=666)
    raw, theirs = hostile.read_bytes(), bytes.fromhex(Elf.parse(honest.read_bytes()).build_id)
    hostile.write_bytes(raw.replace(bytes.fromhex(Elf.parse(raw).build_id), theirs))
    return hostile


def container(file: Path, at: Path, loader: Path, name: str) -> tuple[str, ...]:
    at.mkdir(exist_ok=True)
    return ("unshare", "-m", "sh", "-c", TMPFS.format(at=at, file=file, loader=loader, name=name))


def test_a_container_that_comes_first_names_the_functions_of_another(loader: Path, tmp_path: Path) -> None:
    """Two containers, each with a file of one build-id: the hostile one is sampled first."""
    honest = library("walk_of_a_job", tmp_path / "honest.so")
    hostile = stolen(honest, tmp_path / "hostile.so")
    namer = Namer()
    with (
        running(*container(hostile, tmp_path / "at", loader, "hostile_walk_")) as (first, (there,)),
        running(*container(honest, tmp_path / "at", loader, "walk_of_a_job")) as (second, (here,)),
    ):
        assert name_at(first.pid, int(there, 16), namer) == "hostile_walk_"
        assert name_at(second.pid, int(here, 16), namer) == "walk_of_a_job"


def test_a_container_that_comes_first_names_the_functions_of_the_host(loader: Path, tmp_path: Path) -> None:
    """The same against a library of the host."""
    honest = library("walk_of_the_host", tmp_path / "libwalk.so")
    hostile = stolen(honest, tmp_path / "hostile.so")
    namer = Namer()
    with (
        running(*container(hostile, tmp_path / "at", loader, "hostile_walk_")) as (first, (there,)),
        running(loader, honest, "walk_of_the_host") as (second, (here,)),
    ):
        assert name_at(first.pid, int(there, 16), namer) == "hostile_walk_"
        assert name_at(second.pid, int(here, 16), namer) == "walk_of_the_host"


def test_a_container_takes_the_names_of_the_host(loader: Path, tmp_path: Path) -> None:
    """A hostile library hides behind the build-id of one of the host, which was sampled before."""
    honest = library("walk_of_the_host", tmp_path / "libwalk.so")
    hostile = stolen(honest, tmp_path / "hostile.so")
    namer = Namer()
    with (
        running(loader, honest, "walk_of_the_host") as (first, (here,)),
        running(*container(hostile, tmp_path / "at", loader, "hostile_walk_")) as (second, (there,)),
    ):
        assert name_at(first.pid, int(here, 16), namer) == "walk_of_the_host"
        assert name_at(second.pid, int(there, 16), namer) == "hostile_walk_"


@pytest.mark.parametrize("how", ["of_another_user", "that_others_may_write"])
def test_a_file_of_the_host(how: str, loader: Path, tmp_path: Path) -> None:
    """A file on the host that others than root can write has the build-id of one that root alone can."""
    honest = library("walk_of_the_host", tmp_path / "libwalk.so")
    hostile = stolen(honest, tmp_path / "hostile.so")
    if how == "of_another_user":
        os.chown(hostile, 65534, 65534)
    else:
        hostile.chmod(0o777)
    namer = Namer()
    with (
        running(loader, hostile, "hostile_walk_") as (first, (there,)),
        running(loader, honest, "walk_of_the_host") as (second, (here,)),
    ):
        assert name_at(first.pid, int(there, 16), namer) == "hostile_walk_"
        assert name_at(second.pid, int(here, 16), namer) == "walk_of_the_host"
