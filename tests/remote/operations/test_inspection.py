"""`hosts check`: one row per thing on the way and on the host, and the first failure's exit code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.link.address import Address
from remote.operations import inspection
from remote.operations.inspection import STEPS, Inspection, State, inspect_host
from tests.lab.cards import A100, NO_DRIVER, TITAN_RTX, write_nvidia_smi
from tests.lab.mounts import why_no_mounts
from tests.lab.sshd import Sshd, free_port, make_key


def states(inspection: Inspection) -> dict[str, State]:
    return {row.name: row.state for row in inspection.rows}


def test_a_healthy_host_has_a_row_for_everything_and_no_new_files(
    start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    smi = write_nvidia_smi(tmp_path / "bin", [TITAN_RTX, A100])
    server = start_sshd(environment={"PATH": f"{smi.parent}:/usr/bin:/bin"}, used_before=False)
    found = inspect_host(server.address())
    assert found.exit_code == 0
    assert {"connect", "host key", "login", "agent", "round trip", "clock", "workdir", "python", "gpu"} <= set(
        states(found)
    )
    details = {row.name: row.detail for row in found.rows}
    assert f"127.0.0.1:{server.port}" in details["connect"]
    assert server.fingerprint() in details["host key"]
    assert str(server.user_key) in details["login"]
    assert "strict key exchange" in details["login"]
    assert details["gpu"].startswith("1: NVIDIA A100")
    assert next(row.detail for row in found.rows if row.name == "gpu").startswith("0: NVIDIA TITAN RTX, capability 7.5")
    assert list(server.home.iterdir()) == []


@pytest.mark.parametrize(
    ("break_it", "step", "code"),
    [
        (lambda a, t: replace(a, port=free_port()), "connect", 10),
        (lambda a, t: replace(a, host_key="SHA256:" + "A" * 43), "host key", 12),
        (lambda a, t: replace(a, identity_file=str(make_key(t / "other"))), "login", 11),
        (lambda a, t: replace(a, host="no-such-host.invalid"), "connect", 10),
    ],
)
def test_the_failed_step_is_reported_and_later_steps_are_not_checked(
    sshd: Sshd, tmp_path: Path, break_it: Callable[[Address, Path], Address], step: str, code: int
) -> None:
    found = inspect_host(break_it(sshd.address(), tmp_path))
    assert found.exit_code == code
    seen = states(found)
    at = STEPS.index(step)
    assert seen[step] is State.FAILED
    assert all(seen[name] is State.OK for name in STEPS[:at])
    assert all(seen[name] is State.UNCHECKED for name in STEPS[at + 1 :])
    assert {row.detail for row in found.rows if row.state is State.UNCHECKED} <= {f"needs: {step}"}
    assert next(row for row in found.rows if row.name == step).hint
    assert all(row.detail for row in found.rows), "a check without a result has an empty cell"


def test_a_clock_that_is_an_hour_off_is_warned_of(tmp_path: Path) -> None:
    address = Address("here", "local", workdir=str(tmp_path / "work"))
    assert states(inspect_host(address))["clock"] is State.OK
    found = inspect_host(address, clock=lambda: time.time() - 3600)
    assert states(found)["clock"] is State.WARNING


def test_little_free_space_is_a_warning_with_the_command_that_shows_what_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "LITTLE_FREE_BYTES", 2**60)
    workdir = tmp_path / "halfstep"
    found = inspect_host(Address("here", "local", workdir=str(workdir)))
    [row] = [row for row in found.rows if row.name == "workdir"]
    assert (row.state, found.exit_code) == (State.WARNING, 0)
    assert row.hint == f"du -sh {workdir}/projects/*/*   (on the host)"


@pytest.mark.root
def test_a_workdir_that_cannot_be_written_fails_with_the_disk_code(
    start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    if reason := why_no_mounts():
        pytest.skip(reason)
    (tmp_path / "full").mkdir()
    script = f'mount -t tmpfs -o ro none {tmp_path}/full && exec "$@"'
    server = start_sshd(prefix=("unshare", "-m", "sh", "-c", script, "sh"))
    found = inspect_host(server.address(workdir=f"{tmp_path}/full/halfstep"))
    assert states(found)["workdir"] is State.FAILED
    assert found.exit_code == 22


def test_a_driver_that_does_not_answer_is_an_error_whether_or_not_the_host_file_names_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = write_nvidia_smi(tmp_path / "bin", fails=NO_DRIVER)
    monkeypatch.setenv("PATH", f"{smi.parent}:/usr/bin:/bin")
    address = Address("here", "local", workdir=str(tmp_path / "work"))
    found = inspect_host(address, gpus=(0,), card="titan-rtx")
    assert (states(found)["gpu"], found.exit_code) == (State.FAILED, 21)
    assert NO_DRIVER.split(".")[0] in next(row.detail for row in found.rows if row.name == "gpu")
    assert states(inspect_host(address))["gpu"] is State.FAILED
    smi.unlink()
    taken = inspect_host(address, gpus=(0,), card="titan-rtx")
    assert (states(taken)["gpu"], taken.exit_code) == (State.WARNING, 0)
    assert "is assumed" in next(row.detail for row in taken.rows if row.name == "gpu")
