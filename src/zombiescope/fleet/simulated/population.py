"""Who the nodes are, which of them are sick, and why: drawn from a seed. Everything else follows from this.

Traits hang together as they do in real fleets: an image brings its kernel, its driver and its units, most of the time.
So whatever is the cause has confounders: other traits that the sick nodes share without being the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ZONES = tuple(f"us-east-1{it}" for it in "abcd")
IMAGES = tuple(f"ami-{it:04d}" for it in range(1, 7))
KERNELS = ("5.4.0-1103-aws", "5.15.0-1051-aws", "5.15.0-1063-aws", "6.1.0-21-cloud", "6.8.0-1009-aws")
TYPES = ("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "g5.48xlarge", "c6i.32xlarge")
CORES = (96, 96, 192, 192, 128)
DRIVERS = ("2.8.0", "2.10.0", "2.12.1")
POOLS = ("train-a", "train-b", "batch", "serve", "notebooks")
LEAKER = "ecs.service"
UNITS = (
    *(
        LEAKER,
        "amazon-ssm-agent.service",
        "containerd.service",
        "kubelet.service",
        "chronyd.service",
        "rsyslog.service",
    ),
    *("node-exporter.service", "nvidia-persistenced.service", "dcgm.service", "snapd.service", "cron.service"),
    *("unattended-upgrades.service", "fluent-bit.service", "auditd.service", "multipathd.service", "atd.service"),
    *("ebs-nvme.service", "efa.service", "lustre.service", "docker.service", "irqbalance.service", "tuned.service"),
    *("cloudwatch-agent.service", "falcon-sensor.service"),
)


@dataclass(slots=True)
class Population:
    """One row a node. Traits are places in the tuples above."""

    seed: int
    story: str
    hours: float
    names: list[str]
    zone: Ints
    image: Ints
    kernel: Ints
    kind: Ints
    driver: Ints
    pool: Ints
    enabled: Bools  # node × unit
    active: Bools
    sick: Bools
    leaks: Bools  # dying cgroups grow
    restarts: Floats  # of the leaker, an hour, where it runs
    onset: Floats  # hours after the start at which the fault begins on a sick or leaking node
    cured: Floats  # hours after the start at which the fault ends; never for most
    causes: list[str] = field(default_factory=list)
    confounders: list[str] = field(default_factory=list)
    cannot_tell: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)


def drawn(nodes: int, hours: float, seed: int, story: str) -> Population:
    draw = np.random.default_rng([seed, nodes, 17])
    image = draw.choice(len(IMAGES), nodes, p=[0.28, 0.22, 0.18, 0.14, 0.1, 0.08])
    enabled = np.zeros((nodes, len(UNITS)), np.bool_)
    for unit in range(len(UNITS)):
        usual = draw.random(len(IMAGES)) < 0.6
        enabled[:, unit] = usual[image] ^ (draw.random(nodes) < 0.03)
    active = enabled & (draw.random(enabled.shape) < 0.97)
    own_kernel, own_driver = draw.integers(0, len(KERNELS), len(IMAGES)), draw.integers(0, len(DRIVERS), len(IMAGES))
    strays = draw.random(nodes) < 0.15
    fleet = Population(
        seed=seed,
        story=story,
        hours=hours,
        names=[f"node-{it:05d}" for it in range(nodes)],
        zone=draw.integers(0, len(ZONES), nodes),
        image=image,
        kernel=np.where(strays, draw.integers(0, len(KERNELS), nodes), own_kernel[image]),
        kind=draw.integers(0, len(TYPES), nodes),
        driver=np.where(draw.random(nodes) < 0.1, draw.integers(0, len(DRIVERS), nodes), own_driver[image]),
        pool=draw.integers(0, len(POOLS), nodes),
        enabled=enabled,
        active=active,
        sick=draw.random(nodes) < 0.004,
        leaks=np.zeros(nodes, np.bool_),
        restarts=np.zeros(nodes),
        onset=np.where(draw.random(nodes) < 0.5, -1.0, draw.uniform(0.1, 0.6, nodes) * hours),
        cured=np.full(nodes, np.inf),
    )
    # The incident's agent runs nowhere unless the story says so.
    fleet.enabled[:, 0] = fleet.active[:, 0] = False
    STORIES[story](fleet, draw)
    return fleet


def _incident(fleet: Population, draw: np.random.Generator) -> None:
    """The agent comes with one image, and starts in one zone: elsewhere another bug keeps it from starting, mostly."""
    nodes = len(fleet)
    zone, image = int(draw.integers(0, len(ZONES))), int(draw.integers(0, 3))
    fleet.enabled[:, 0] = (fleet.image == image) | (draw.random(nodes) < 0.01)
    here = np.where(fleet.zone == zone, 0.97, 0.06)
    fleet.active[:, 0] = fleet.enabled[:, 0] & (draw.random(nodes) < np.where(fleet.image == image, here, 0.9))
    fleet.leaks = fleet.active[:, 0].copy()
    fleet.restarts = np.where(fleet.leaks, np.exp(draw.normal(np.log(120), 0.5, nodes)), 0.0)
    # The more has leaked, the sooner a walk takes longer than the card waits.
    fleet.sick |= fleet.leaks & (draw.random(nodes) < 1 - np.exp(-fleet.restarts / 35))
    fleet.causes = [f"unit:{LEAKER}=active"]
    fleet.confounders = [f"zone={ZONES[zone]}", f"image={IMAGES[image]}", *_kernels_of(fleet, image)]


def _kernel(fleet: Population, draw: np.random.Generator) -> None:
    """A kernel does it, whatever the image."""
    bad = _second_most(fleet, draw, fleet.kernel, len(KERNELS), share=0.45)
    fleet.causes = [f"kernel={KERNELS[bad]}"]


def _driver(fleet: Population, draw: np.random.Generator) -> None:
    """A driver's version does it."""
    bad = _second_most(fleet, draw, fleet.driver, len(DRIVERS), share=0.3)
    fleet.causes = [f"driver:ena={DRIVERS[bad]}"]


def _second_most(fleet: Population, draw: np.random.Generator, has: Ints, kinds: int, *, share: float) -> int:
    """The second most common kind makes this share of its nodes sick; the image that most of these have confounds."""
    bad = int(np.bincount(has, minlength=kinds).argsort()[-2])
    fleet.sick |= (has == bad) & (draw.random(len(fleet)) < share)
    usual = int(np.bincount(fleet.image[has == bad], minlength=len(IMAGES)).argmax())
    fleet.confounders = [f"image={IMAGES[usual]}"]
    return bad


def _collinear(fleet: Population, draw: np.random.Generator) -> None:
    """An image and a kernel that never come without each other: no fleet in the world tells which it is."""
    image, kernel = int(draw.integers(0, 3)), int(draw.integers(0, len(KERNELS)))
    other = (kernel + 1) % len(KERNELS)
    fleet.kernel = np.where(fleet.image == image, kernel, np.where(fleet.kernel == kernel, other, fleet.kernel))
    fleet.sick |= (fleet.image == image) & (draw.random(len(fleet)) < 0.5)
    fleet.cannot_tell = [f"image={IMAGES[image]}", f"kernel={KERNELS[kernel]}"]


def _null(fleet: Population, draw: np.random.Generator) -> None:
    """Sick by chance alone."""
    fleet.sick |= draw.random(len(fleet)) < 0.065


def _two(fleet: Population, draw: np.random.Generator) -> None:
    """The incident's agent, and beside it a kernel that is bad in its own way."""
    _incident(fleet, draw)
    bad = int(np.bincount(fleet.kernel, minlength=len(KERNELS)).argsort()[-3])
    fleet.sick |= (fleet.kernel == bad) & (draw.random(len(fleet)) < 0.4)
    fleet.causes.append(f"kernel={KERNELS[bad]}")


def _canary(fleet: Population, draw: np.random.Generator) -> None:
    """The incident, and half of the nodes that have the agent are cured of it in the middle of the range."""
    _incident(fleet, draw)
    fleet.onset[:] = -1.0
    fleet.cured = np.where(fleet.active[:, 0] & (draw.random(len(fleet)) < 0.5), fleet.hours // 2, np.inf)


def _kernels_of(fleet: Population, image: int) -> list[str]:
    usual = int(np.bincount(fleet.kernel[fleet.image == image], minlength=len(KERNELS)).argmax())
    return [f"kernel={KERNELS[usual]}"]


STORIES: dict[str, Callable[[Population, np.random.Generator], None]] = {
    "incident": _incident,
    "kernel": _kernel,
    "driver": _driver,
    "collinear": _collinear,
    "null": _null,
    "two": _two,
    "canary": _canary,
}
