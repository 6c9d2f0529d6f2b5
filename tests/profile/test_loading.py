"""What a command loads: each module that it does not need is time that its user waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.profile.perf_data_file import one_of_everything, text_fact


def test_a_heatmap_loads_nothing_that_only_names_need(tmp_path: Path) -> None:
    """Each of these takes 10 to 20 ms to load, of a command that takes 300."""
    (tmp_path / "perf.data").write_bytes(one_of_everything().file(features={4: text_fact(b"4.4.0-another")}))
    program = (
        "import sys; from zombiescope.cli._sources import opened; from zombiescope.profile.heatmap import heatmap; "
        "heatmap(opened(sys.argv[1]).capture, 10_000); "
        "wanted = ('numpy.ma', 'zombiescope.naming.elf', 'zombiescope.naming.cplusplus'); "
        "print([it for it in wanted if it in sys.modules])"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "perf.data")]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "[]\n"
