"""SE-22: secrets lie in a folder and in files that only their user can read, whatever other users have planted."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from remote.payload.processes import launch
from remote.payload.processes.launch import (
    Launch,
    job_argv,
    job_environment,
    remove_rendezvous,
    renew_rendezvous,
    take_launch,
    write_launch,
)
from remote.payload.processes.private_folder import _shared_memory, secret_folder
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import RunLayout

LAUNCH = Launch({"HF_TOKEN": "hf_value"}, {"PATH": "/bin"})


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `halfstep` in which secrets will be stored. It does not exist yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "halfstep"


def assert_in_memory(unused: Path) -> None:
    """The folder is another one of this user's alone, in memory, rather than the disk of the workdir."""
    found = secret_folder()
    assert found.startswith("/dev/shm/hs-") and Path(found) != unused
    assert stat.S_IMODE(os.lstat(found).st_mode) == 0o700


def test_SE_22_the_folder_of_secrets_is_created_private_under_any_umask(runtime: Path) -> None:
    before = os.umask(0)
    try:
        assert secret_folder() == str(runtime)
    finally:
        os.umask(before)
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    assert secret_folder() == str(runtime)


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o702])
def test_SE_22_a_folder_of_secrets_that_others_may_enter_is_not_used(runtime: Path, mode: int) -> None:
    runtime.mkdir()
    runtime.chmod(mode)
    assert_in_memory(runtime)


def test_SE_22_a_planted_link_or_file_is_not_used(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "theirs")
    assert_in_memory(runtime)
    runtime.unlink()
    runtime.touch(mode=0o600)
    assert_in_memory(runtime)


@pytest.mark.root
def test_SE_22_a_folder_of_another_user_is_not_used(runtime: Path, account: Callable[..., str]) -> None:
    runtime.mkdir(mode=0o700)
    shutil.chown(runtime, account())
    assert_in_memory(runtime)


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o750])
def test_SE_22_a_runtime_folder_that_others_may_enter_is_not_used(runtime: Path, mode: int) -> None:
    """They could replace the folder `halfstep` in it after the check, and the file that torch unpickles."""
    runtime.parent.chmod(mode)
    assert_in_memory(runtime)
    assert not runtime.exists()


@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_SE_22_a_runtime_folder_that_others_may_replace_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_used: bool
) -> None:
    own = tmp_path / "run" / "own"
    own.mkdir(mode=0o700, parents=True)
    own.parent.chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{own}/")
    assert (secret_folder() == str(own / "halfstep")) is is_used


def test_SE_22_a_link_a_relative_path_or_a_missing_folder_is_no_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("own")
    monkeypatch.chdir(tmp_path)
    for named in (f"{tmp_path}/link/", "own", "./own", f"{tmp_path}/missing/own", "/"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", named)
        assert_in_memory(tmp_path / "own/halfstep")


@pytest.mark.root
@pytest.mark.parametrize("whose", ["the folder", "a folder above"])
def test_SE_22_a_runtime_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: Callable[..., str], whose: str
) -> None:
    own = tmp_path / "run" / "own"
    own.mkdir(mode=0o700, parents=True)
    shutil.chown(own if whose == "the folder" else own.parent, account())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert_in_memory(own / "halfstep")


@pytest.mark.root
@pytest.mark.parametrize("planted", ["a folder of another user", "an open folder", "a link", "a file"])
def test_SE_22_a_name_that_another_user_has_taken_in_memory_does_not_send_the_secrets_to_the_disk(
    tmp_path: Path, account: Callable[..., str], planted: str
) -> None:
    """Otherwise any user of the host could decide that the secrets are written to the disk."""
    tmp_path.chmod(0o1777)
    taken = tmp_path / f"hs-{os.getuid()}"
    if planted == "a link":
        taken.symlink_to("/tmp")
    elif planted == "a file":
        taken.touch()
    else:
        taken.mkdir()
        taken.chmod(0o777 if planted == "an open folder" else 0o700)
    os.chown(taken, pwd.getpwnam(account()).pw_uid, -1, follow_symlinks=False)
    (tmp_path / f"hs-{os.getuid()}-0").mkdir(mode=0o755)
    folder = Path(_shared_memory(str(tmp_path)))
    assert folder.parent == tmp_path and folder != taken
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.getuid()
    assert _shared_memory(str(tmp_path)) == str(folder), "the next start finds the files of this one"


def test_SE_22_without_memory_that_can_be_written_there_is_no_folder(tmp_path: Path) -> None:
    assert _shared_memory(str(tmp_path / "missing")) == ""


def test_SE_22_a_launch_file_is_private_under_any_umask_and_read_once(tmp_path: Path) -> None:
    path = tmp_path / "launch"
    before = os.umask(0)
    try:
        write_launch(str(path), LAUNCH)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert take_launch(str(path)) == LAUNCH
    assert not path.exists()


@pytest.mark.parametrize("what", ["a file", "a link"])
def test_SE_22_a_launch_file_never_overwrites_a_planted_file_or_follows_a_planted_link(
    tmp_path: Path, what: str
) -> None:
    path, victim = tmp_path / "launch", tmp_path / "victim"
    if what == "a link":
        path.symlink_to(victim)
    else:
        path.touch()
    with pytest.raises(FileExistsError):
        write_launch(str(path), LAUNCH)
    assert not victim.exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_SE_22_a_launch_file_that_others_may_open_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "launch"
    write_launch(str(path), LAUNCH)
    path.chmod(mode)
    with pytest.raises(PermissionError):
        take_launch(str(path))


def test_SE_22_a_launch_file_behind_a_link_is_not_read(tmp_path: Path) -> None:
    write_launch(str(tmp_path / "real"), LAUNCH)
    (tmp_path / "launch").symlink_to("real")
    with pytest.raises(OSError, match="symbolic links"):
        take_launch(str(tmp_path / "launch"))


@pytest.mark.root
def test_SE_22_a_launch_file_of_another_user_is_not_read(tmp_path: Path, account: Callable[..., str]) -> None:
    path = tmp_path / "launch"
    write_launch(str(path), LAUNCH)
    shutil.chown(path, account())
    with pytest.raises(PermissionError):
        take_launch(str(path))


@pytest.mark.parametrize("configured", ["", "/own/cache"])
@pytest.mark.parametrize("where", ["host", "spec"])
def test_SE_22_torch_keeps_compiled_code_in_the_run_unless_a_place_is_configured(
    monkeypatch: pytest.MonkeyPatch, where: str, configured: str
) -> None:
    """Its default is in /tmp, where another user could create the folder first, and torch runs the code in it."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    monkeypatch.delenv(name, raising=False)
    if configured and where == "host":
        monkeypatch.setenv(name, configured)
    given = {name: configured} if configured and where == "spec" else {}
    environment = job_environment(JobSpec("r", 1, "", (), environment=given), RunLayout("/run"), Launch())
    assert environment[name] == (configured or "/run/inductor")


def test_SE_22_each_start_of_a_job_has_a_new_key_and_no_store_of_an_earlier_start(runtime: Path) -> None:
    run = RunLayout("/w/projects/p-1/runs/r-1")
    spec = JobSpec("r-1", 2, "", ("torchrun", "--rdzv-endpoint", "{rendezvous}"))
    environment = job_environment(spec, run, Launch())
    key, store = Path(environment["HALFSTEP_KEY_FILE"]), Path(environment["HALFSTEP_STORE"])
    assert (key.parent, store.parent) == (runtime, runtime)
    renew_rendezvous(run.job(2))
    first = key.read_bytes()
    assert (len(first), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)
    kept = runtime / "launch-1"
    kept.touch()
    renew_rendezvous(run.job(1))
    Path(f"{store}-29500-0").touch()
    Path(job_argv(spec, run, run.job(2), "/p")[2]).touch()
    renew_rendezvous(run.job(2))
    assert len(list(runtime.iterdir())) == 3, "two keys, and the file of something else"
    assert key.read_bytes() != first
    for number in (1, 2):
        remove_rendezvous(run.job(number))
    assert list(runtime.iterdir()) == [kept]


def test_only_torchrun_on_one_host_keeps_its_store_in_a_file(runtime: Path) -> None:
    spec = JobSpec("r-1", 1, "", ("accelerate", "launch", "train.py"))
    environment = job_environment(spec, RunLayout("/w/projects/p-1/runs/r-1"), Launch())
    assert "HALFSTEP_KEY_FILE" in environment
    assert "HALFSTEP_STORE" not in environment


def test_a_job_has_a_key_unless_its_processes_run_on_several_hosts_or_the_config_sets_none(runtime: Path) -> None:
    run, name = RunLayout("/w/projects/p-1/runs/r-1"), "HALFSTEP_KEY_FILE"
    several = JobSpec("r-1", 1, "", ("python", "-m", "torch.distributed.run"), hosts=2)
    assert job_environment(several, run, Launch({}, {name: "/inherited"}))[name] == ""
    none = JobSpec("r-1", 1, "", ("mpirun", "-H", "a,b", "python", "train.py"), environment={name: ""})
    assert job_environment(none, run, Launch())[name] == ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_SE_a_user_who_fills_the_memory_file_system_does_not_stop_a_job_that_needs_no_key(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(launch.os, "urandom", full)
    with pytest.raises(PermissionError) if code == errno.EACCES else nullcontext():
        renew_rendezvous(RunLayout("/w/projects/p-1/runs/r-1").job(2))
    assert (list(runtime.iterdir()) == []) is (code != errno.EACCES)
