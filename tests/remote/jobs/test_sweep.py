"""Killed at any system call that changes something, a start or a save can be completed by the next try."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from remote.link.bundle import payload_bundle
from remote.operations.jobs import stop_job
from remote.payload.checkpoints import found, published
from remote.payload.checkpoints.files import BrokenCheckpoint
from remote.payload.processes.private_folder import secret_folder
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from remote.protocol.values import dumps
from tests.lab.processes import command_of
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, TRAINER, Bench, ours

CHANGES = (
    "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,ftruncate,write,pwrite64,fsync,fchmod,symlink,symlinkat,"
    "vfork,clone,clone3,fork,pipe2"
)
"""System calls that change a host. Opening a file for writing is covered by the call after it."""

START = """
import json, sys
sys.path.insert(0, sys.argv[1])
from remote.payload.jobs.operations import start
from remote.payload.request.call import Call
args = json.load(open(sys.argv[3]))
start(Call("job.start", args, sys.argv[2], sys.argv[1], None))
"""

SAVE = """
import sys
sys.path[:0] = sys.argv[1:3]
import fake_trainer
from remote.payload.checkpoints.published import publish, rotate
sys.argv = ["x"]
fake_trainer.save({folder!r}, 10)
publish({folder!r} + "/checkpoint-10")
rotate({folder!r}, 1)
"""


@pytest.fixture(autouse=True)
def _strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine")


@pytest.fixture
def payload(bench: Bench) -> Path:
    """The payload, at the path that the agent uses."""
    return bench.workdir / "payload" / f"{payload_bundle(byte_code=True).sha256}.pyz"


def run_killed(argv: Sequence[str], log: Path, kill_point: tuple[str, int] | None, **more: object) -> int:
    """Run `argv` and kill it at the nth call of that name. Without a kill point, write its calls to `log`."""
    inject = [f"--inject={kill_point[0]}:signal=KILL:when={kill_point[1]}"] if kill_point else []
    command = ["strace", "-qq", "-o", str(log), "-e", f"trace={CHANGES}", *inject, *argv]
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more).returncode


def kill_points(log: Path) -> Iterator[tuple[str, int]]:
    """Yield every call in the log as (name, number of such calls so far)."""
    seen: collections.Counter[str] = collections.Counter()
    for line in log.read_text(errors="replace").splitlines():
        name = line.partition("(")[0]
        if name.isidentifier():
            seen[name] += 1
            yield name, seen[name]


def save_checkpoints(parent: Path, *steps: int) -> None:
    """Save checkpoints in a separate process, as the fake trainer does."""
    parent.mkdir(parents=True)
    environment = {**os.environ, "HALFSTEP_RUN_DIR": str(parent), "HALFSTEP_OUTPUT_DIR": str(parent)}
    code = f"import fake_trainer\nfor step in {steps}: fake_trainer.save({str(parent)!r}, step)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**environment, "PYTHONPATH": str(TRAINER.parent)})


def request(bench: Bench, path: Path, secret: str) -> Path:
    """Write the request to start the bench's run, which waits for `go`, and return its path."""
    spec = bench.spec("--until", bench.workdir / "go", secrets=("HF_TOKEN",), grace_s=5.0)
    path.write_bytes(dumps(StartRequest(PROJECT, spec, "tiny", secrets={"HF_TOKEN": secret})))
    return path


def files_with(secret: str, *folders: Path) -> list[Path]:
    """Return the files under the folders that contain the secret."""
    found = []
    for path in (path for folder in folders for path in folder.rglob("*")):
        # Other tests use the folder in memory too, and create and delete files in it.
        with contextlib.suppress(OSError):
            if path.is_file() and secret.encode() in path.read_bytes():
                found.append(path)
    return found


def test_FI_40_a_start_killed_at_any_change_is_completed_by_the_next_start(bench: Bench, payload: Path, tmp_path: Path):
    log, asked = tmp_path / "calls", tmp_path / "request.json"
    secret, places = f"hf_{secrets.token_hex(16)}", (Path(secret_folder()), bench.workdir)

    def start(name: str, kill_point: tuple[str, int] | None) -> int:
        bench.run = name
        argv = [sys.executable, "-I", "-S", "-B", "-c", START, str(payload), str(bench.workdir)]
        return run_killed([*argv, str(request(bench, asked, secret))], log, kill_point)

    assert start("counted", None) == 0
    stop_job(bench.host, PROJECT, bench.run)
    kills = exposed = 0
    for number, kill_point in enumerate(list(kill_points(log))):
        if start(f"run-{number}", kill_point) == 0:
            stop_job(bench.host, PROJECT, bench.run, grace_s=0)
            continue
        kills += 1
        exposed += bool(files_with(secret, *places))
        answer = bench.start(
            "--until", bench.workdir / "go", secrets=("HF_TOKEN",), request={"secrets": {"HF_TOKEN": secret}}
        )
        assert answer.state is JobState.RUNNING, kill_point
        until(lambda: bench.events("begin"), f"the trainer after {kill_point}")
        assert bench.survey().orphans == (), kill_point
        assert stop_job(bench.host, PROJECT, bench.run).result.stopped, kill_point
        assert len(bench.events("begin")) == 1, kill_point
        until(lambda: not ours(bench.workdir), f"no process of ours after {kill_point}")
        assert files_with(secret, *places) == [], f"a file with the secret is left after {kill_point}"
    assert kills > 20, "the kill must really have struck"
    assert exposed > 0, "some kill must have left a file with the secret for the next start to remove"


def test_FI_42_a_supervisor_killed_at_any_change_never_leaves_an_unrecorded_trainer(
    bench: Bench, payload: Path, tmp_path: Path
):
    log = tmp_path / "calls"

    def supervise(name: str, kill_point: tuple[str, int] | None) -> int:
        bench.run = name
        job = Path(bench.job().root)
        job.mkdir(parents=True)
        Path(bench.layout.code).mkdir()
        spec = bench.spec("--steps", 2, "--save-every", 2)
        Path(bench.layout.record).write_text(json.dumps({"run": name, "config": "tiny", "fingerprint": "f"}))
        Path(bench.job().spec).write_bytes(dumps(spec))
        argv = [sys.executable, "-I", "-S", "-B", str(payload), "supervise", "stay", str(job)]
        return run_killed(argv, log, kill_point, start_new_session=True)

    assert supervise("counted", None) == 0
    kills = 0
    for number, kill_point in enumerate(list(kill_points(log))):
        if supervise(f"run-{number}", kill_point) == 0:
            continue
        kills += 1
        run = bench.survey()
        trainers = [pid for pid in ours(bench.workdir) if b"fake_trainer" in command_of(pid)]
        if trainers:
            assert run.state in (JobState.RUNNING, JobState.LOST), (kill_point, run)
        stop_job(bench.host, PROJECT, bench.run, grace_s=0)
        until(lambda: not ours(bench.workdir), f"no process of ours after {kill_point}")
        assert len(bench.events("begin")) <= 1, kill_point
    assert kills > 20, "the kill must really have struck"


def test_FI_54_a_save_killed_at_any_change_is_resumed_from_the_one_before(tmp_path: Path):
    log = tmp_path / "calls"
    sources = str(Path(published.__file__).parents[3])

    def save(run: Path, kill_point: tuple[str, int] | None) -> int:
        folder = run / "checkpoints"
        folder.mkdir(parents=True)
        shutil.copytree(first, folder / "checkpoint-5")
        published.publish(str(folder / "checkpoint-5"))
        code = SAVE.format(folder=str(folder))
        return run_killed(
            [sys.executable, "-B", "-c", code, sources, str(TRAINER.parent)], log, kill_point, env=environment
        )

    first = tmp_path / "first" / "checkpoint-5"
    environment = {**os.environ, "HALFSTEP_RUN_DIR": str(tmp_path), "HALFSTEP_OUTPUT_DIR": str(tmp_path)}
    save_checkpoints(first.parent, 5)
    assert save(tmp_path / "counted", None) == 0
    assert published.newest_verified(str(tmp_path / "counted")).step == 10
    kills, taken = 0, collections.Counter()
    for number, kill_point in enumerate(list(kill_points(log))):
        run = tmp_path / f"run-{number}"
        if save(run, kill_point) == 0:
            continue
        kills += 1
        newest = published.newest_verified(str(run))
        assert newest is not None, kill_point
        taken[newest.step] += 1
        for folder in published.unpublished(str(run)):
            try:
                published.publish(folder)
            except BrokenCheckpoint:
                pass
        for folder in found.find_checkpoints(str(run)):
            if published.verify(folder):
                assert "broken-checkpoint-10" in published.set_aside(folder), kill_point
        assert published.newest_verified(str(run)) is not None, kill_point
    assert kills > 20
    assert taken[5] > 0 and taken[10] > 0, "both sides of the commit record must have been struck"


def test_FI_55_a_full_disk_in_the_middle_of_a_publish_leaves_the_previous_checkpoint(tmp_path: Path):
    folder = tmp_path / "checkpoints"
    save_checkpoints(folder, 5, 10)
    published.publish(str(folder / "checkpoint-5"))
    publish = f"import sys; sys.path.insert(0, {str(Path(published.__file__).parents[3])!r}); "
    publish += f"from remote.payload.checkpoints.published import publish; publish({str(folder / 'checkpoint-10')!r})"
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "--inject=write:error=ENOSPC"]
    done = subprocess.run([*command, sys.executable, "-B", "-c", publish], check=False, stderr=subprocess.DEVNULL)
    assert done.returncode != 0
    assert published.newest_verified(str(tmp_path)).step == 5
    assert not list(folder.rglob(".hs-part-*"))


def test_every_file_is_synced_before_the_manifest_appears(tmp_path: Path):
    folder = tmp_path / "checkpoints"
    save_checkpoints(folder, 10)
    publish = f"import sys; sys.path.insert(0, {str(Path(published.__file__).parents[3])!r}); "
    publish += f"from remote.payload.checkpoints.published import publish; publish({str(folder / 'checkpoint-10')!r})"
    log = tmp_path / "calls"
    trace = ["strace", "-y", "-qq", "-o", str(log), "-e", "trace=fsync,rename"]
    subprocess.run([*trace, sys.executable, "-B", "-c", publish], check=True)
    lines = log.read_text().splitlines()
    renamed = next(number for number, line in enumerate(lines) if "halfstep-manifest.json" in line)
    before = "\n".join(lines[:renamed])
    for path in (folder / "checkpoint-10").iterdir():
        if not path.name.startswith("halfstep-"):
            assert f"{path}>" in before, f"{path.name} was not synced first"
    assert f"<{folder / 'checkpoint-10'}>" in before, "the folder was not synced first"
