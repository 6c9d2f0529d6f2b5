"""zombiescope: why a Linux node that looks healthy starves its work, with evidence."""

__version__ = "0.1.0"
