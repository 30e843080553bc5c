"""The proof over the agent with real processes: its report, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from remote.link.local import local_host
from remote.operations.proof import run_proof
from remote.payload.processes.identity import all_processes, read_environment
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.proof import ProofReport, ProofRequest
from remote.protocol.values import encode
from tests.lab.payload import install_payload
from tests.lab.plain_torch import WITHOUT_COMPILER
from tests.lab.wait import until

SCRIPTS = Path(__file__).parent / "scripts"
TURING = (7, 5)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LOOP = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range({steps}):
    model(torch.randn(2, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SMALL = WITHOUT_COMPILER + LOOP


def new_place(folder):
    """Return the folder, with a workdir that already contains files, and a tree to prove."""
    (install_payload(folder / "work") / "kept.txt").write_text("mine")
    (folder / "tree").mkdir()
    return folder


@pytest.fixture
def place(tmp_path):
    return new_place(tmp_path)


@pytest.fixture
def host(place):
    host = local_host(str(place / "work"), keep=False)
    yield host
    host.close()


def request(place, argv, *, requested="auto", **more):
    plan = judge_precision(capability=TURING, requested=requested)
    environment = {"OMP_NUM_THREADS": "1", "HALFSTEP_TEST_MARK": str(place)}
    return ProofRequest(
        "p-1", tuple(argv), plan, capability=TURING, source=str(place / "tree"), environment=environment, **more
    )


def script(place, text):
    (place / "tree" / "train.py").write_text(text)
    return (sys.executable, "train.py")


def living(place):
    mark = f"HALFSTEP_TEST_MARK={place}".encode()
    return [process.pid for process in all_processes() if not process.dead and mark in read_environment(process.pid)]


def digests(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(root.rglob("*"))
    }


def checks(report, severity="error"):
    return [finding.check for finding in report.findings if finding.severity.value == severity]


@dataclass(frozen=True)
class Proved:
    """A proof: its report, its steps as they were reported, and the files of the host before and after."""

    place: Path
    report: ProofReport
    steps: list[Any]
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """One proof of a wrapper whose script writes files, on a host that has a sitecustomize of its own."""
    folder = tmp_path_factory.mktemp("proved")
    place = new_place(folder)
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.from_the_host = 11\n")
    python, name = script(
        place,
        "assert from_the_host == 11\nimport sitecustomize, builtins\n"
        "import os, pathlib\n"
        "pathlib.Path('out.txt').write_text(os.environ['HALFSTEP_OUTPUT_DIR'])\n"
        "pathlib.Path(os.environ['HALFSTEP_OUTPUT_DIR'], 'saved').mkdir()\n" + SMALL.format(steps=1000),
    )
    argv = ("sh", "-c", f"{python} {name}; touch {place / 'after'}")
    asked = request(place, argv, requested="fp32", run_steps=1000)
    asked = replace(asked, environment={**asked.environment, "PYTHONPATH": str(own)})
    before, steps = digests(folder), []
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(local_host(str(place / "work"), keep=False)) as host:
        patch.setenv("HOME", str(folder))
        # The laptop's cache of the agent, which is written only if no earlier test of this process has filled it.
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("laptop")))
        report = run_proof(host, asked, on_step=steps.append)
        return Proved(place, report, steps, before, digests(folder))


def test_a_proof_leaves_the_host_unchanged_and_no_process_running(proved):
    assert checks(proved.report) == []
    assert proved.report.applied == 2
    assert proved.report.exit is None
    assert proved.report.eta_s is not None
    assert proved.after == proved.before
    assert living(proved.place) == []


def test_every_step_is_reported_as_it_happens(proved):
    assert [step.applied for step in proved.steps] == [True, True]
    assert all(step.loss > 0 for step in proved.steps)


def test_what_comes_after_the_training_in_a_wrapper_is_never_reached(proved):
    assert proved.report.applied == 2
    assert not (proved.place / "after").exists()


def test_the_command_runs_in_a_copy_and_writes_into_the_scratch(proved):
    assert proved.report.applied == 2
    assert sorted(path.name for path in (proved.place / "tree").iterdir()) == ["train.py"]


def test_the_hosts_own_sitecustomize_still_runs(proved):
    assert checks(proved.report) == [], proved.report.output_tail


def test_a_failing_command_is_reported_with_its_stderr_text(place, host):
    report = run_proof(host, request(place, script(place, "import torch\nraise ValueError('no such card')\n")))
    finding = next(finding for finding in report.findings if finding.check == "command-failed")
    assert "no such card" in finding.message
    assert finding.exit_code is ExitCode.PRECISION
    assert report.exit == 1
    assert "ValueError: no such card" in report.output_tail


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "python -I train.py",
            "`python -I train.py` loaded torch without the proof's hooks: python -I ignores PYTHONPATH",
        ),
        ("PYTHONPATH=src python train.py", "PYTHONPATH was set without its earlier value"),
        ("PYTHONPATH=own:$PYTHONPATH python train.py", "another sitecustomize.py comes first on PYTHONPATH"),
        ("python quick.py", "without importing torch in any process of this host"),
        ("python look.py", "`python look.py` imported torch, but no optimizer step was recorded"),
        ("true", "no Python process of the command had the proof's hooks"),
    ],
    ids=["isolated", "another path", "another sitecustomize", "no torch", "no step", "no Python"],
)
def test_a_command_without_observed_steps_is_neither_proved_nor_failed(command, message, place, host):
    tree = place / "tree"
    script(place, SMALL.format(steps=3) + "import time\ntime.sleep(1)\n")
    (tree / "quick.py").write_text("print('nothing to train')\n")
    (tree / "look.py").write_text("import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n")
    (tree / "own").mkdir()
    (tree / "own" / "sitecustomize.py").write_text("")
    command_line = f"PATH={Path(sys.executable).parent}:$PATH; {command}"
    report = run_proof(host, request(place, ("sh", "-c", command_line)))
    assert checks(report) == []
    assert checks(report, "warning")[0] == "proof-blind"
    assert message in report.blind.message
    assert report.applied == 0


@pytest.mark.parametrize("command", ["PYTHONPATH=src python train.py", "python start.py"], ids=["shell", "Python"])
def test_the_proof_ends_if_one_of_several_processes_signs_nothing(command, place, host):
    script(place, "import time, torch\ntime.sleep(600)\n")
    words = "import os, subprocess, sys; os.environ['PYTHONPATH'] = 'src'; subprocess.run([sys.executable, 'train.py'])"
    (place / "tree" / "start.py").write_text(words)
    command_line = f"PATH={Path(sys.executable).parent}:$PATH; export WORLD_SIZE=2; {command}"
    report = run_proof(host, request(place, ("sh", "-c", command_line)))
    assert checks(report) == ["unsigned-processes"]
    assert report.exit is None
    assert living(place) == []


def test_a_training_without_hooks_is_not_called_too_slow_at_its_deadline(place, host):
    argv = script(place, "import time, torch\ntime.sleep(600)\n")
    report = run_proof(host, request(place, (argv[0], "-E", argv[1]), deadline_s=6.0))
    assert report.blind.message.endswith("python -E ignores PYTHONPATH")
    assert checks(report) == []
    assert living(place) == []


@pytest.mark.parametrize(
    "first",
    ["import transformers", "from peft import LoraConfig", "import importlib.util; importlib.util.find_spec('torch')"],
)
def test_two_steps_are_recorded_whichever_module_searches_for_torch_first(first, place, host):
    report = run_proof(host, request(place, script(place, f"{first}\n{LOOP.format(steps=1000)}"), requested="fp32"))
    assert checks(report) == []
    assert report.applied == 2


def test_a_command_that_takes_no_step_in_time_is_ended(place, host):
    argv = script(place, "import time, torch\ntime.sleep(600)\n")
    report = run_proof(host, request(place, argv, deadline_s=4.0))
    assert checks(report) == ["proof-timeout"]
    assert living(place) == []


def test_a_short_run_is_judged_by_its_steps_and_reported_as_short(place, host):
    report = run_proof(host, request(place, script(place, SMALL.format(steps=1)), requested="fp32"))
    assert "proof-short" in checks(report, "warning")
    assert "adapter-moves" in [unseen.check for unseen in report.unseen]


def test_when_the_laptop_disconnects_nothing_is_left(place, host):
    code = "import time\n" + SMALL.format(steps=1000).replace(
        "optimizer.step()", "time.sleep(0.5)\n    optimizer.step()"
    )
    events = host.follow(
        "proof.run", encode(request(place, script(place, code), requested="fp32", steps=1000, attempts=1000))
    )
    next(event for event in events if "step" in event)
    assert living(place)
    events.close()
    until(lambda: not living(place))
    until(lambda: not (place / "work" / "projects").exists())


def test_when_the_runner_is_killed_training_ends_and_the_next_proof_sweeps(place, host):
    code = "import time\n" + SMALL.format(steps=1000).replace(
        "optimizer.step()", "time.sleep(0.5)\n    optimizer.step()"
    )
    events = host.follow(
        "proof.run", encode(request(place, script(place, code), requested="fp32", steps=1000, attempts=1000))
    )
    next(event for event in events if "step" in event)
    scratch = next((place / "work" / "projects" / "p-1" / "scratch").iterdir())
    os.kill(int(scratch.name.split("-")[2]), signal.SIGKILL)
    until(lambda: not living(place))
    assert scratch.exists()
    events.close()
    run_proof(host, request(place, script(place, SMALL.format(steps=1000)), requested="fp32"))
    assert not (place / "work" / "projects").exists()


@pytest.mark.train
@pytest.mark.parametrize(
    ("name", "launcher", "requested", "ranks"),
    [
        ("trainer", (sys.executable,), "fp32", 1),
        (
            "accelerated",
            (sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"),
            "fp32",
            1,
        ),
        ("lightning_fit", (sys.executable,), "fp32", 1),
        ("distributed", TORCHRUN, "auto", 2),
        ("sharded", TORCHRUN, "auto", 2),
    ],
    ids=["trainer", "accelerated", "lightning", "distributed", "sharded"],
)
def test_the_usual_shapes_of_training_are_proved_unmodified(name, launcher, requested, ranks, place, host):
    (place / "tree" / "train.py").write_text((SCRIPTS / "launched" / f"{name}.py").read_text())
    report = run_proof(host, request(place, (*launcher, "train.py"), requested=requested))
    assert checks(report) == [], report.output_tail[-3000:]
    assert report.applied >= 2
    assert report.ranks == ranks
    assert ("gradient-reduced" in {finding.check for finding in report.findings}) == (name == "distributed")
    assert living(place) == []
    assert not (place / "work" / "projects").exists()
