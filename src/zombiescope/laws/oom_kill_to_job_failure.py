"""An OOM-killed process ends without a message, and what needed it dies or is restarted."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import owner, owners
from zombiescope.core import Finding, Ground, Reading
from zombiescope.core.timeline import Timeline
from zombiescope.derived.ray_log import lines_of, ray_nodes
from zombiescope.knowledge.kernel_messages import recognise

WITHIN = 120.0  # seconds: a worker's death is logged at once, container restarts are sampled once a minute
_RAY = "ray::"  # begins the name of every process that runs a task or an actor


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    killed = [(it, message.fields) for it in cause.evidence if (message := recognise(it.text)) is not None]
    died = [one for one in lines_of(timeline) if one.reading in effect.evidence and one.death.how == "crashed"]
    cgroups = {fields["task_memcg"]: it for it, fields in killed if "task_memcg" in fields}
    for reading, fields in killed:
        worker = next((one.reading for one in died if one.death.fields.get("pid") == fields.get("pid", "none")), None)
        if worker is not None:
            says = f"the OOM-killed process {fields['pid']} ({fields.get('process', '?')}) is the worker that died"
            yield Ground(kind="mechanism", says=says, evidence=(reading, worker))
            return
    # Ray in a container has other pids for its processes than the kernel's log.
    for node in ray_nodes(timeline).values():
        if died and node.cgroup in cgroups and any(fields.get("process", "").startswith(_RAY) for _, fields in killed):
            says = "a Ray worker was OOM-killed in the raylet's own cgroup, and a worker of it died"
            yield Ground(kind="place", says=says, evidence=(cgroups[node.cgroup], node.reading, died[0].reading))
            return
    yield from _container(effect, cgroups, timeline)


def _container(effect: Finding, cgroups: dict[str, Reading], timeline: Timeline) -> Iterator[Ground]:
    """A restarted container, if it is the one whose cgroup the kernel names."""
    restarted = effect.evidence[0].text if effect.evidence[0].what == "container_restarts_total" else ""
    for path, line in cgroups.items():
        whose = owner(timeline, f"cgroup:{path}")
        if restarted and (whose == restarted or whose.startswith((f"{restarted},", f"{restarted} ("))):
            says = f"a process was OOM-killed in {path}"
            yield Ground(kind="place", says=says, evidence=(line, *owners(timeline, f"cgroup:{path}")))
            return
