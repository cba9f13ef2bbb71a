"""Files that commands write: all of them or none, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbnn._base.files import write_all_atomically
from tests.cli import test_cli
from tests.cli.test_cli import files

empty_folder = test_cli.empty_folder


def test_all_files_or_none():
    Path("old.txt").write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_all_atomically(
            {Path("old.txt"): lambda path: path.write_text("new"), Path("b"): lambda _: 1 / 0}
        )
    assert files() == {"old.txt"}
    assert Path("old.txt").read_text() == "old"


def test_stale_files_are_removed_and_fresh_ones_left():
    for name, age in ((".lbnn-stale", 7200), (".lbnn-fresh", 10)):
        Path(name).write_text("x")
        os.utime(name, (time.time() - age,) * 2)
    write_all_atomically({Path("a"): lambda path: path.write_text("a")})
    assert files() == {"a", ".lbnn-fresh"}


def test_termination_leaves_no_temporary_file():
    program = (
        "import time, signal, sys; from pathlib import Path; from lbnn._base.files import write_atomically; "
        "from lbnn.cli.entry import _end; signal.signal(signal.SIGTERM, _end); "
        "write_atomically(Path('x'), lambda p: (print('ready', flush=True), time.sleep(30)))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143
    assert files() == set()
