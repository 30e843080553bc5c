"""The Python files that a shell script starts."""

from __future__ import annotations

import time

import pytest

from fixers.sources.shell_starts import files_started


@pytest.mark.parametrize("line", [b"srun " * 10_000, b"python " * 5000, b"$a .py " * 5000])
def test_SE_12_a_long_line_of_a_shell_script_is_no_command(line: bytes) -> None:
    script = b"a=1\n" * 8 + b"python train.py\n" + line + b"python other.py\n"
    assert files_started("run.sh", script) == {"train.py"}


@pytest.mark.parametrize("line", [b"srun " * 798, b"srun .py " * 400, b"$a " * 1300, b"-m a;" * 780])
def test_SE_12_a_shell_script_of_many_launchers_is_read_in_linear_time(line: bytes) -> None:
    script = b"".join(b"a=%d\n" % number for number in range(8)) + b"python train.py $a\n" + (line + b"\n") * 16
    began = time.process_time()
    assert "train.py" in files_started("run.sh", script)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("line", "started"),
    [
        (b"srun srun --nodes 2 python a.py b.py; echo c.py | python -u d.py", {"a.py", "d.py"}),
        (b"python -c 'x' # a.py", set()),
        (b"x '--module python a.py'", {"a.py"}),
        (b"torchrun -m python a.py", {"python.py"}),
        (b"torchrun " + b" " * 1990 + b"a.py", {"a.py"}),
        (b"torchrun " + b" " * 2010 + b"a.py", set()),
        (b"torchrun x" + b" " * 2010 + b"python a.py", {"a.py"}),
    ],
)
def test_a_launcher_starts_the_first_script_after_it_in_its_command(line: bytes, started: set[str]) -> None:
    assert files_started("run.sh", line + b"\n") == started


@pytest.mark.parametrize(("times", "started"), [(2, {"train.py", "other.py"}), (100, {"train.py"})])
def test_SE_12_a_line_that_its_variables_make_long_is_no_command(times: int, started: set[str]) -> None:
    script = b"a='" + b"srun " * 90 + b"'\nS=other.py\npython train.py\n" + b"$a " * times + b"python $S\n"
    assert files_started("run.sh", script) == started
