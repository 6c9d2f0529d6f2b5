"""A row of figures for each node, over the range: what rankings, conditions and the page are made of.

One pass over the metrics. Quantiles are of ten-second means; slopes are by least squares over the whole range.
"""

from __future__ import annotations

from zombiescope.fleet.partial_sums import Question, answer
from zombiescope.fleet.reading import Fleet

# Of the metrics. Quantiles cannot be added up, so all rows of a node are asked together. The 99th percentile is found
# among the highest hundredth, which is kept as rows pass: to keep and sort all of them costs a third more.
_METRICS = """
    SELECT * EXCLUDE (highest, seen, place), coalesce(
        highest[place + 1] + (highest[place + 2] - highest[place + 1]) * ((seen - 1) * 0.01 - place),
        highest[place + 1], highest[-1]) AS cpu_pressure_99
    FROM (SELECT *, floor((seen - 1) * 0.01)::BIGINT AS place FROM (
        SELECT node_id,
            count(*) AS readings,
            max(core_system_max) AS core_system_max,
            sum(core_saturated_seconds) AS core_saturated_seconds,
            avg(cpu_user + cpu_system) AS busy_cores,
            avg(cpu_steal) AS steal_cores,
            max(memcg_dying) AS dying,
            regr_slope(memcg_dying, epoch_us(ts)) * 3600e6 AS dying_per_hour,
            sum(pgscan_direct) * 10 AS pages_scanned,
            avg(throttled) AS throttled_cores,
            avg(pressure_memory) AS memory_pressure,
            sum(softnet_squeezed) * 10 AS squeezed,
            min(memory_available_bytes) AS memory_available_bytes,
            max(pressure_cpu, {most}) AS highest, count(pressure_cpu) AS seen
        FROM {{source}} GROUP BY node_id))"""
_A_HOUR = 360  # readings of a node, one every ten seconds
FROM_FINDINGS = """
    SELECT node_id, max(coalesce(waited_cores, 0)) AS waited_cores, max(coalesce(burnt_cores, 0)) AS burnt_cores,
        max(coalesce(held_bytes, 0)) AS held_bytes, min(soon_seconds) AS soon_seconds
    FROM findings WHERE role = 'root' GROUP BY 1"""


def from_metrics(hours: int) -> Question:
    """Of a node that sends more readings than it should, the percentile is the lowest of its highest."""
    return Question("metrics", _METRICS.format(most=_A_HOUR * hours // 100 + 2), by_node=True)


def make_features(fleet: Fleet) -> None:
    """The table `node_features`, made once."""
    if fleet.rows("SELECT 1 FROM information_schema.tables WHERE table_name = 'node_features'"):
        return
    fleet.connection.register("_metrics", answer(fleet, from_metrics(len(fleet.hours))))
    fleet.rows(f"""
        CREATE TABLE node_features AS
        SELECT n.node_id, n.name, n.zone, n.image, n.kernel, n.instance_type, n.cores, n.labels,
            m.* EXCLUDE (node_id), f.* EXCLUDE (node_id),
            coalesce(e.resets, 0) AS resets, coalesce(j.failed_jobs, 0) AS failed_jobs, coalesce(j.jobs, 0) AS jobs
        FROM nodes n
        LEFT JOIN _metrics m USING (node_id)
        LEFT JOIN ({FROM_FINDINGS}) f USING (node_id)
        LEFT JOIN (SELECT node_id, count(*) AS resets FROM events WHERE kind = 'driver_reset' GROUP BY 1) e
            USING (node_id)
        LEFT JOIN (SELECT node_id, count(*) AS jobs, count(*) FILTER (outcome = 'failed') AS failed_jobs
                   FROM jobs GROUP BY 1) j USING (node_id)""")
