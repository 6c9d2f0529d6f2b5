"""Interfaces of the kernel that are not plain text: bpf, BTF, perf_event, tracefs, kmsg, ioctl; used by probes."""
