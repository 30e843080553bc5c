"""Why a proof saw no optimizer step, judged from its Python processes; this is never a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from remote.link.host_hints import hint_of_host
from remote.payload.processes.identity import read_process
from remote.payload.proof.evidence import Evidence
from remote.payload.proof.judge import judge_proof
from remote.payload.proof.pythons import (
    CUSTOMIZE_HIDDEN,
    OUT_OF_SIGHT,
    PATH_REPLACED,
    VARIABLES_REMOVED,
    Python,
    Pythons,
    _exists_below,
    inspect_python,
    is_one_of_several,
    why_unhooked,
)
from remote.payload.proof.unhooked import UNSIGNED
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.protocol.launchers import isolating_flag
from remote.protocol.proof import ProofRequest

HOOKS = "/scratch/hooks"
VARIABLES = (b"HALFSTEP_KEY_FILE=/key", b"HALFSTEP_WATCH=/run")
ISOLATED = Python(7, "python -I train.py", torch=True, why="-I")
REPLACED = Python(8, "python train.py", torch=True, why=PATH_REPLACED)
HIDDEN = Python(9, "python train.py", torch=True, why=CUSTOMIZE_HIDDEN)
LAUNCHER = Python(5, "accelerate launch train.py", torch=True, hooked=True)
WITHOUT_TORCH = Python(6, "python wrapper.py", hooked=True)
FAULTY = Python(4, "python train.py", torch=True, hooked=True, fault="Traceback:\nAttributeError: no such seam\n")
FORKED = Python(3, "python train.py", torch=True)


def judge(*pythons: Python, environment=None, **seen):
    plan = judge_precision(capability=(7, 5))
    request = ProofRequest("p", ("python", "train.py"), plan, environment=environment or {})
    return judge_proof(Evidence(request, (), pythons=pythons, **{"exit": 0, **seen}))


@pytest.mark.parametrize(
    ("pythons", "message", "hint"),
    [
        ((ISOLATED,), "`python -I train.py` loaded torch without the proof's hooks: python -I ignores", "without -I"),
        ((REPLACED,), "PYTHONPATH was set without its earlier value", "PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}"),
        ((HIDDEN,), "another sitecustomize.py comes first", 'PYTHONPATH="$PYTHONPATH:src"'),
        ((LAUNCHER, REPLACED), "`python train.py` loaded torch without the proof's hooks", "PYTHONPATH"),
        ((LAUNCHER, FORKED), "`accelerate launch train.py` imported torch, but no optimizer step", "torch.optim"),
        ((WITHOUT_TORCH,), "without importing torch in any process of this host", "container"),
        ((), "no Python process of the command had the proof's hooks", "-I, -E and -S"),
        ((Python(2, "python -S x.py", why="-S"),), "had the proof's hooks: python -S ignores", "without -S"),
        ((FAULTY,), "could not be installed into torch in `python train.py`: AttributeError: no such seam", "report"),
    ],
)
def test_a_proof_without_steps_reports_the_reason_and_a_hint(pythons, message, hint):
    report = judge(*pythons)
    assert report.ok, "what could not be seen is no failure"
    assert report.blind.severity is Severity.WARNING
    assert message in report.blind.message
    assert hint in report.blind.hint


@pytest.mark.parametrize("pythons", [(ISOLATED,), (LAUNCHER, REPLACED), (FAULTY,)])
def test_a_training_without_hooks_is_not_too_slow_at_the_deadline(pythons):
    report = judge(*pythons, exit=None, timed_out=True)
    assert [finding.check for finding in report.findings] == ["proof-blind"]


@pytest.mark.parametrize("pythons", [(), (LAUNCHER,), (WITHOUT_TORCH,), (LAUNCHER, FORKED)])
def test_a_watched_command_without_a_step_at_the_deadline_is_too_slow(pythons):
    report = judge(*pythons, exit=None, timed_out=True)
    assert [finding.check for finding in report.report.errors] == ["proof-timeout"]


@pytest.mark.parametrize("python", [ISOLATED, REPLACED, HIDDEN])
@pytest.mark.parametrize("ended", [{"exit": None}, {"exit": None, "timed_out": True}, {"exit": 1}])
def test_one_of_several_processes_without_hooks_is_an_error_because_it_signs_nothing(python, ended):
    (finding,) = judge(LAUNCHER, replace(python, several=True), **ended).report.errors
    assert (finding.check, finding.exit_code) == (UNSIGNED, ExitCode.ENVIRONMENT)
    assert python.command in finding.message
    assert finding.hint == hint_of_host(finding.hint) or python is ISOLATED


@pytest.mark.parametrize(
    "python", [replace(REPLACED, hooked=True), FORKED, WITHOUT_TORCH, replace(REPLACED, torch=False)]
)
def test_a_process_that_has_the_hooks_or_exchanges_nothing_is_not_unsigned(python):
    assert judge(LAUNCHER, replace(python, several=True)).ok


def test_the_config_may_switch_the_signatures_off():
    off = {"HALFSTEP_KEY_FILE": ""}
    assert judge(replace(REPLACED, several=True), environment=off).blind is not None


@pytest.mark.parametrize(
    ("variables", "several"),
    [
        ("WORLD_SIZE=2", True),
        ("WORLD_SIZE=16", True),
        ("WORLD_SIZE=1", False),
        ("LOCAL_WORLD_SIZE=2", False),
        ("", False),
    ],
)
def test_a_process_is_one_of_several_if_its_launcher_counts_them(variables, several):
    assert is_one_of_several(["python"], (b"HOME=/root", variables.encode())) is several


def test_a_command_that_fails_is_a_failure_whether_or_not_it_was_watched():
    report = judge(ISOLATED, exit=1)
    assert [finding.check for finding in report.report.errors] == ["command-failed"]


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("python train.py -I", ""),
        ("python -I train.py", "-I"),
        ("python -u -IB train.py", "-I"),
        ("python -BE -m train", "-E"),
        ("python -W ignore -S train.py", "-S"),
        ("python -Wignore -S train.py", "-S"),
        ("python -X importtime train.py -S", ""),
        ("python -X utf8=1 -S train.py", "-S"),
        ("python -m accelerate.commands.launch -I", ""),
        ("python -c -I", ""),
        ("python", ""),
    ],
)
def test_flags_that_keep_the_hooks_out_are_read_as_python_reads_them(command, flag):
    assert isolating_flag(command.split()) == flag


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"PYTHONPATH={HOOKS}:src", ""),
        (f"PYTHONPATH=src:{HOOKS}", CUSTOMIZE_HIDDEN),
        ("PYTHONPATH=src", PATH_REPLACED),
        ("HOME=/root", PATH_REPLACED),
    ],
)
def test_an_environment_that_keeps_the_hooks_out_is_recognised(path, why):
    assert why_unhooked(["python", "train.py"], (*VARIABLES, path.encode()), HOOKS) == why


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (VARIABLES, ""),
        ((b"HALFSTEP_KEY_FILE=", b"HALFSTEP_PROOF=/p"), ""),
        ((), VARIABLES_REMOVED),
        (VARIABLES[:1], VARIABLES_REMOVED),
        (VARIABLES[1:], VARIABLES_REMOVED),
    ],
)
def test_an_environment_without_the_variables_of_the_job_is_recognised(variables, why):
    path = f"PYTHONPATH={HOOKS}".encode()
    assert why_unhooked(["python", "train.py"], (*variables, path), HOOKS) == why


def test_a_process_that_does_not_see_the_hooks_is_recognised(tmp_path):
    seen, path = str(tmp_path), f"PYTHONPATH={tmp_path}:{tmp_path}/unseen".encode()
    for hooks, why in ((seen, ""), (f"{seen}/unseen", OUT_OF_SIGHT)):
        assert why_unhooked(["python", "train.py"], (*VARIABLES, path), hooks, os.getpid()) == why


def test_an_absolute_link_on_the_path_of_the_hooks_is_resolved_in_the_root_of_the_process(tmp_path):
    root, host = tmp_path / "root", tmp_path / "scratch"
    (host / "hooks").mkdir(parents=True)
    (root / "home").mkdir(parents=True)
    (root / "home/scratch").symlink_to(host)
    assert not _exists_below(str(root), "/home/scratch/hooks")
    assert not _exists_below(str(root), "/home/../missing")
    (root / str(host / "hooks")[1:]).mkdir(parents=True)
    assert _exists_below(str(root), "/home/scratch/hooks")
    assert _exists_below(str(root), "/home/./../home/scratch/../" + "scratch/hooks")
    (root / "home/loop").symlink_to("/home/loop")
    assert not _exists_below(str(root), "/home/loop/hooks")


def test_a_torchrun_of_another_user_lacks_the_variables_of_the_job(monkeypatch):
    argv = [sys.executable, "-c", "print(flush=True); input()", "/bin/torchrun", "train.py"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ran:
        ran.stdout.readline()  # Its command line can be read only some time after Popen has returned.
        monkeypatch.setattr(os, "geteuid", lambda: 4243)
        found = inspect_python(ran.pid, HOOKS)
        ran.communicate(b"\n")
    assert found is not None and found.is_unsigned
    assert found.why == VARIABLES_REMOVED


@pytest.mark.parametrize(
    ("command", "several"),
    [
        ("python /bin/torchrun --standalone --nproc-per-node 2 train.py", True),
        ("python -m torch.distributed.run --rdzv-backend=c10d train.py", True),
        ("python -m torch.distributed.run --rdzv_backend c10d train.py", True),
        ("python /bin/torchrun --nproc-per-node 1 train.py", True),
        ("python -m torch.distributed.launch train.py", True),
        ("python /bin/torchrun --nproc-per-node 2 --master-port 29501 train.py", False),
        ("python /bin/torchrun --rdzv_endpoint=localhost:29501 train.py", False),
        ("python train.py --standalone", False),
    ],
)
def test_a_torchrun_that_keeps_its_state_in_a_store_counts_as_a_training_process(command, several):
    assert is_one_of_several(command.split(), ()) is several


def test_no_reason_is_given_if_the_environment_cannot_be_read():
    assert why_unhooked(["python", "train.py"], (), HOOKS) == ""


@pytest.fixture
def loading(tmp_path):
    """A process without the hooks that has loaded torch, and waits."""
    code = "import torch; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield read_process(process.pid)
        process.kill()


def test_torch_without_any_hooks_is_not_waited_for(loading, tmp_path):
    pythons = Pythons(HOOKS, str(tmp_path))
    pythons.look(lambda: [loading], 100.0)
    assert not pythons.is_unhooked(100.0)
    pythons.look(list, 130.0)
    assert not pythons.is_unhooked(130.0)
    assert pythons.is_unhooked(161.0)
    assert [(one.why, one.torch, one.hooked) for one in pythons.processes()] == [("-I", True, False)]


def test_one_process_with_hooks_is_worth_waiting_for(loading, tmp_path):
    pythons = Pythons(HOOKS, str(tmp_path))
    pythons.look(lambda: [loading], 100.0)
    (tmp_path / "python-5.json").write_text('{"pid": 5, "command": ["python", "a.py"], "torch": false}')
    pythons.look(lambda: [loading], 130.0)
    assert not pythons.is_unhooked(1000.0)


def test_the_note_of_a_process_overrides_what_was_observed_from_outside(loading, tmp_path):
    pythons = Pythons(HOOKS, str(tmp_path))
    pythons.look(lambda: [loading], 0.0)
    note = {"pid": loading.pid, "command": ["python", "a.py"], "torch": False}
    (tmp_path / f"python-{loading.pid}.json").write_text(json.dumps(note))
    (tmp_path / "python-6.json.part").write_text("{")
    assert pythons.processes() == (Python(loading.pid, "python a.py", torch=True, hooked=True),)


TORCHRUN = Python(2, f"{sys.executable} -u /venv/bin/torchrun --standalone train.py", torch=True, hooked=True)


@pytest.mark.parametrize(
    ("pythons", "torch", "torchrun"),
    [
        ((), False, False),
        ((WITHOUT_TORCH,), False, False),
        ((LAUNCHER,), True, False),
        ((WITHOUT_TORCH, TORCHRUN), True, True),
        ((LAUNCHER, replace(TORCHRUN, hooked=False, why="-I")), True, False),
    ],
)
def test_a_report_says_whether_the_hooks_ran_with_torch_and_in_torchrun(
    pythons: tuple[Python, ...], torch: bool, torchrun: bool
) -> None:
    report = judge(*pythons)
    assert (report.hooked_torch, report.hooked_torchrun) == (torch, torchrun)
