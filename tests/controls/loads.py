"""Nodes that are only busy, as they are run in production: none of them may be accused of anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.controls.generated import T0, Node
from tests.controls.pieces import Process

_READ = "start;read;ksys_read;vfs_read;seq_read_iter"
_IDLE_STACK = "start_thread;worker"


def reclaims(node: Node, *, stalled: float, busy: float) -> None:
    """Two kswapd at work: their own time counts as waiting for memory, and so do the tasks that reclaim themselves.

    The pressure is of the cores that are busy, a share of all.
    """
    works = np.zeros(node.seconds)
    for number in range(2):
        rate = node.noisy(0.6, node.seconds)
        node.thread(f"kswapd{number}", run=rate, delay=0.01)
        works += rate
    waited = works.reshape(-1, 2).mean(axis=1) + node.noisy(stalled, node.seconds // 2, 0.5)
    node.counter("pressure_memory_waiting_seconds_total", "node", waited / (busy * node.cores), pace=2, unit=1e-6)


def ci_builder(node: Node) -> None:
    """6,000 forks a second of compilers and shells, every core nearly full, and jobs queue for cores all the time."""
    node.spend(slice(None), user=0.55, system=0.28, softirq=0.01, spread=0.25)
    node.forks(6_000.0, running=1.1 * node.cores)
    node.pressed(cpu=0.35, io=0.03, io_full=0.005)
    node.faults(3_000_000.0, pgmajfault=40.0, pgscan_kswapd=300_000.0, pgsteal_kswapd=290_000.0)
    reclaims(node, stalled=0.05, busy=0.84)  # clean pages of sources and objects
    node.process(Process("ninja", 4242, user=0.2, system=0.3, delay=0.08, cpu=3, children=100.0))
    for place in range(40):
        node.process(Process("cc1plus", 5000 + place, user=0.8, system=0.1, delay=0.15, cpu=place * 4))
    for cpu in range(0, node.cores, 16):
        node.sampled("cc1plus[5000]", "main;compile;asm_exc_page_fault;exc_page_fault;handle_mm_fault", cpu, 0.05)
        node.sampled("sh[6000]", "main;__libc_fork;do_syscall_64;kernel_clone;copy_process", cpu, 0.03)


def gpu_training(node: Node) -> None:
    """Dataloaders read a dataset larger than memory: kswapd and reclaim drop clean pages all the time."""
    node.spend(slice(None), user=0.72, system=0.16, softirq=0.01, iowait=0.04, spread=0.2)
    node.forks(60.0, running=0.8 * node.cores)
    stall, scan = 400.0, 900_000.0
    node.faults(
        1_500_000.0,
        pgmajfault=3_000.0,
        pgscan_kswapd=2_500_000.0,
        pgsteal_kswapd=2_400_000.0,
        pgscan_direct=scan,
        pgsteal_direct=0.97 * scan,
        allocstall=stall,
        pgpgin=8_000_000.0,
    )
    node.pressed(cpu=0.04, io=0.3, io_full=0.01)
    reclaims(node, stalled=0.8, busy=0.89)  # 400 times a second for 2 ms, of 170 busy cores
    for place in range(64):
        node.process(Process("pt_data_worker", 7000 + place, user=0.7, system=0.2, delay=0.02, cpu=place * 2))
    for place in range(8):
        node.process(Process("python3", 6900 + place, user=2.5, system=0.4, delay=0.02, cpu=100 + place))
    node.spend([40, 41], user=0.05, system=0.65, softirq=0.02, spread=0.3)  # where kswapd runs
    for cpu in (40, 41):
        node.sampled(
            f"kswapd{cpu - 40}[{300 + cpu}]", "kthread;kswapd;balance_pgdat;shrink_node;shrink_folio_list", cpu, 0.6
        )


def throttled_sidecars(node: Node) -> None:
    """Go and Java sidecars of half a core: a burst of garbage collection uses the quota up, 2.5 ms before its end."""
    node.spend(slice(None), user=0.35, system=0.08, softirq=0.01)
    node.pressed(cpu=0.02)
    for pod in range(80):
        share, queues = node.made.uniform(0.3, 0.9), node.made.uniform(1.0, 3.0)  # cores that it ran on when stopped
        path = f"/kubepods.slice/kubepods-pod{pod:08x}.slice/cri-containerd-{pod:064x}.scope"
        node.throttled(path, quota=0.5, share=float(share), stopped=float(share * queues) * 10 * 0.0025)
        node.process(
            Process("istio-proxy" if pod % 2 else "java", 9000 + pod, user=0.2, system=0.05, delay=0.01, cpu=pod)
        )


def gateway(node: Node) -> None:
    """A router: a dozen cores do nothing but softirqs, and nobody else runs there."""
    node.spend(slice(0, 12), softirq=0.93, system=0.01, irq=0.02, spread=0.02)
    node.packets(slice(0, 12), 900_000.0, squeezed=40.0)
    for cpu in range(12):
        node.thread(f"ksoftirqd/{cpu}", run=0.25, delay=0.02)
        node.sampled(
            f"ksoftirqd/{cpu}[{20 + cpu}]", "kthread;run_ksoftirqd;__do_softirq;net_rx_action;napi_poll", cpu, 0.9
        )
    node.process(Process("bird", 800, user=0.02, system=0.02, delay=0.001, cpu=60))


def gateway_one_queue(node: Node) -> None:
    """The same with a card of one queue: one core is the node's network."""
    node.spend([5], softirq=0.9, system=0.01, irq=0.02, spread=0.02)
    node.packets([5], 1_200_000.0, squeezed=60.0)
    node.thread("ksoftirqd/5", run=0.3, delay=0.03)
    node.process(Process("cilium-agent", 800, user=0.1, system=0.05, delay=0.001, cpu=60))


def realtime_poller(node: Node) -> None:
    """DPDK and a FIFO thread, each on an isolated core of its own."""
    for cpu, name in ((190 % node.cores, "dpdk-lcore"), (191 % node.cores, "fifo-ctl")):
        polls_kernel = name == "fifo-ctl"
        node.spend([cpu], user=0.995 * (not polls_kernel), system=0.97 * polls_kernel, spread=0.01)
        node.process(
            Process(
                name,
                1000 + cpu,
                user=0.0 if polls_kernel else 0.99,
                system=0.97 * polls_kernel,
                cpu=cpu,
                priority="SCHED_FIFO 50",
            )
        )
        node.sampled(f"{name}[{1000 + cpu}]", "main;poll;do_syscall_64;do_sys_poll", cpu, 0.97 * polls_kernel)
        node.thread(f"ksoftirqd/{cpu}", run=0.0, delay=0.0)


def kubelet_250_pods(node: Node) -> None:
    """kubelet's housekeeping of 250 pods, node_exporter and a GPU exporter: sysfs is kernfs too."""
    node.spend(slice(None), user=0.4, system=0.1, softirq=0.01)
    node.pressed(cpu=0.03)
    seconds = np.arange(node.seconds)
    housekeeping = np.where(seconds % 10 < 2, 0.45, 0.1)
    node.process(Process("kubelet", 812, user=0.5, system=0.3, delay=0.01, cpu=7))
    for place in range(30):
        node.process(Process("app", 1200 + place, user=0.6, system=0.1, delay=0.04, cpu=7 + place % 8))
    node.sampled("kubelet[812]", f"{_READ};cgroup_seqfile_show;memory_stat_show;css_rstat_flush", 7, housekeeping * 0.3)
    node.sampled("kubelet[812]", f"{_READ};cgroup_seqfile_show;memory_stat_show;memory_stat_format", 7, housekeeping)
    node.sampled("node_exporter[900]", f"{_READ};kernfs_fop_readdir", 9, np.where(seconds % 15 < 1, 0.7, 0.0))
    node.sampled(
        "dcgm-exporter[901]", "start;openat;do_sys_openat2;path_openat;lookup_fast;kernfs_iop_lookup", 11, 0.15
    )
    node.sampled("kworker/u384:2[50]", "kthread;worker_thread;flush_memcg_stats_dwork;css_rstat_flush", 13, 0.01)
    for place, name in enumerate(("node_exporter", "dcgm-exporter")):
        node.process(Process(name, 900 + place, user=0.1, system=0.15, delay=0.005, cpu=9 + 2 * place))


def cold_dying_cgroups(node: Node) -> None:
    """2 TB, 60 days up: 5,000 dying cgroups hold cold page cache and cost nobody anything."""
    node.spend(slice(None), user=0.4, system=0.06, softirq=0.01)
    many = node.seconds // 60 + 1
    wobble = np.cumsum(node.made.integers(-1, 2, many)).astype(float)
    node.dying(5_000 + wobble, live=900.0)


def cron_jobs(node: Node) -> None:
    """40 CronJobs a minute: each pod's cgroup stays for as long as its page cache is charged, and then goes."""
    node.spend(slice(None), user=0.3, system=0.06, softirq=0.01)
    node.pressed(cpu=0.01)
    seconds = np.arange(node.seconds + 1)
    stays = 600.0  # seconds that the page cache keeps a removed cgroup
    path = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod*.slice"
    for what, late in (("births", 0.0), ("removals", 20.0), ("releases", 20.0 + stays)):
        # Before the recording they came and went as well: what was removed then is released during it.
        before = 0.0 if what != "releases" else stays
        total = np.floor(np.maximum(seconds - late + before, 0.0) * 40 / 60)
        subject = f"family:{path}"
        node.gauge(f"cgroup_{what}_total", subject, total)
        node.texts[f"cgroup_{what}_total", subject] = path
    many = node.seconds // 60 + 1
    node.dying(400.0 + node.made.integers(-15, 16, many), live=700.0)
    node.sampled("kworker/3:1[77]", "kthread;worker_thread;process_one_work;css_killed_work_fn", 3, 0.02)
    node.sampled("runc[88]", "main;mkdir;do_mkdirat;kernfs_iop_mkdir;cgroup_mkdir", 5, 0.03)


def many_mounts(node: Node) -> None:
    """250 pods of twelve mounts each; kubelet and systemd read the table when one comes or goes."""
    node.spend(slice(None), user=0.4, system=0.08, softirq=0.01)
    node.pressed(cpu=0.02)
    many = node.seconds // 60 + 1
    node.gauge("mounts", "node", 3_060 + 12.0 * node.made.integers(-2, 3, many), pace=60)
    node.gauge("mounts_read_cpu_seconds", "node", np.full(many, 0.006), pace=60)
    node.node("mounts_limit", 100_000.0)
    pod_comes = np.where(np.arange(node.seconds) % 60 == 20, 0.3, 0.0)
    for who, cpu in (("systemd[1]", 4), ("kubelet[812]", 8)):
        node.sampled(who, f"{_READ};show_mountinfo;seq_path_root", cpu, pod_comes)


def kernel_heavy_jobs(node: Node) -> None:
    """io_uring's SQPOLL, vhost, rm -rf of a million files, an image layer unpacked: each fills a core by design."""
    node.spend(slice(None), user=0.25, system=0.05, softirq=0.01)
    node.pressed(cpu=0.01, io=0.05)
    jobs = (
        ("iou-sqp-700", 701, 20, "kthread;io_sq_thread;__io_sq_thread;io_submit_sqes"),
        ("vhost-710", 711, 21, "kthread;vhost_worker;handle_rx;vhost_net_buf_peek"),
        ("rm", 720, 22, "main;unlinkat;do_unlinkat;vfs_unlink;ext4_unlink"),
        ("containerd", 730, 23, "main;write;vfs_write;ext4_file_write_iter;generic_perform_write"),
    )
    for name, pid, cpu, stack in jobs:
        node.spend([cpu], system=0.96, user=0.02, spread=0.02)
        node.process(Process(name, pid, user=0.02, system=0.96, delay=0.002, cpu=cpu))
        node.sampled(f"{name}[{pid}]", stack, cpu, 0.96)


def finished_worker(node: Node) -> None:
    """A unit with Restart=always that exits 0 after each piece of work, every 20 s."""
    node.spend(slice(None), user=0.3, system=0.05, softirq=0.01)
    total = np.floor(np.arange(node.seconds // 5 + 1) * 5 / 20) + 4_000
    unit = "unit:queue-worker.service"
    node.gauge("unit_restarts_total", unit, total, pace=5)
    node.texts["unit_restarts_total", unit] = "active (running), NRestarts=4000, Result=success, ExecMainStatus=0"
    for what, text in (
        ("unit_cgroup", "/system.slice/queue-worker.service"),
        ("unit_loops_for_ever", "restarted whenever it ends, forever: its start limit is switched off"),
        ("unit_active", "active (running)"),
    ):
        node.gauge(what, unit, np.ones(node.seconds // 5 + 1), pace=5)
        node.texts[what, unit] = text
    path = "/system.slice/queue-worker.service"
    made = np.floor(np.arange(node.seconds + 1) / 20)
    for what in ("births", "removals", "releases"):
        node.gauge(f"cgroup_{what}_total", f"family:{path}", made)
        node.texts[f"cgroup_{what}_total", f"family:{path}"] = path


def just_booted(node: Node) -> None:
    """Booted a minute ago: everything starts at once, units wait for others by failing, pods and mounts come."""
    first = slice(0, 120)
    node.spend(slice(None), user=0.2, system=0.05, softirq=0.01)
    node.spend(slice(None), when=first, user=0.5, system=0.35, softirq=0.03, iowait=0.05)
    rate = np.full(node.seconds, 40.0)
    rate[first] = 900.0
    node.counter("forks_total", "node", rate, first=5_000.0)
    node.gauge("uptime_seconds", "node", 60.0 + node.times[60] - T0, pace=60)
    early = np.where(np.arange(node.seconds // 2) < 60, 1.0, 0.05)
    node.counter("pressure_cpu_waiting_seconds_total", "node", 0.2 * early, pace=2, unit=1e-6)
    node.counter("pressure_io_waiting_seconds_total", "node", 0.3 * early, pace=2, unit=1e-6)
    node.counter("vmstat_pgfault_total", "node", 1_500_000.0 * early, pace=2)
    node.counter("vmstat_pgmajfault_total", "node", 2_000.0 * early, pace=2)
    many = node.seconds // 60 + 1
    node.gauge("mounts", "node", np.minimum(200 + 300.0 * np.arange(many), 1_900.0), pace=60)
    unit, count = "unit:node-problem-detector.service", node.seconds // 5 + 1
    node.gauge("unit_restarts_total", unit, np.minimum(np.arange(count) // 3, 2).astype(float), pace=5)
    node.texts["unit_restarts_total", unit] = "active (running), NRestarts=2, Result=success, ExecMainStatus=0"
    born = np.minimum(np.arange(node.seconds + 1) * 2.0, 400.0)
    family = "family:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod*.slice"
    node.gauge("cgroup_births_total", family, born)
    node.gauge("cgroup_removals_total", family, np.floor(born / 20))
    node.gauge("cgroup_releases_total", family, np.floor(born / 20))
    for at, line in (
        (1.0, "random: crng init done"),
        (2.0, "EXT4-fs (nvme0n1p1): mounted filesystem"),
        (9.0, "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready"),
    ):
        node.lines.append((at, line))
    for place in range(20):
        node.process(Process("containerd-shim", 3000 + place, user=0.1, system=0.1, delay=0.05, cpu=place))


def stepped_clock(node: Node) -> None:
    """The clock is set an hour ahead, or a minute back, in the middle of a busy recording."""
    gpu_training(node)
    node.steps(node.seconds // 2, 3600.0 if node.made.random() < 0.5 else -60.37)


def resumed(node: Node) -> None:
    """Suspended for eight hours and resumed: no core was sampled, none ran, and all began again at once."""
    ci_builder(node)
    asleep = 8 * 3600.0
    node.steps(node.seconds // 2, asleep)
    began = T0 + node.seconds // 2
    for cpu in range(node.cores):
        gap = (np.array([began - 0.3]), np.array([asleep + 0.5]))
        node.columns.setdefault("core_gap_seconds", {})[f"cpu:{cpu}"] = gap


def quiet_but_large(node: Node) -> None:
    """Nothing but the base load."""


CONTROLS: dict[str, tuple[int, Callable[[Node], None]]] = {
    "ci_builder": (192, ci_builder),
    "gpu_training": (192, gpu_training),
    "throttled_sidecars": (96, throttled_sidecars),
    "gateway": (96, gateway),
    "gateway_one_queue": (96, gateway_one_queue),
    "realtime_poller": (192, realtime_poller),
    "kubelet_250_pods": (96, kubelet_250_pods),
    "cold_dying_cgroups": (192, cold_dying_cgroups),
    "cron_jobs": (96, cron_jobs),
    "many_mounts": (96, many_mounts),
    "kernel_heavy_jobs": (96, kernel_heavy_jobs),
    "finished_worker": (96, finished_worker),
    "just_booted": (192, just_booted),
    "stepped_clock": (192, stepped_clock),
    "resumed": (192, resumed),
    "quiet_but_large": (192, quiet_but_large),
}
