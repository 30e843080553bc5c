"""Every failure that has a cure: it fails with its error, the cure is applied, and the same command succeeds."""

from __future__ import annotations

import errno
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.cures import next_cure
from pipeline.diagnosis.diagnose import diagnose_text
from remote.payload.processes.launch import Launch, job_environment
from remote.policy.precision import judge_precision
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import RunLayout
from remote.protocol.machine import Gpu

SCRIPTS = Path(__file__).parent / "scripts"
CURED = sorted((SCRIPTS / "cured").glob("*.py"))
TURING = Gpu(0, "", "TITAN RTX", (7, 5), 24 * 2**30, assumed=True)

ELSEWHERE = {
    "tokenizer-json-corrupt": "tests/fixers/hosts/tokenizer/test_downloads.py",
    "phi4-sampling-rate": "tests/fixers/hosts/test_data_collator.py",
}
"""Cures that need a host and are tested with one, and cures of failures that `run` cannot reach."""

BY_CONFIG = {"gradient-finite", "loss-zero-or-nan", "cuda-oom", "port-in-use", "hub-offline", "gpu-busy"}


@pytest.fixture
def job(forkserver, tmp_path):
    """Run a script in its own folder and return its exit status and its output."""

    def run(script, **environment):
        (tmp_path / "output.log").unlink(missing_ok=True)
        given = {"HALFSTEP_PROOF": "", "HALFSTEP_WATCH": str(tmp_path), **environment}
        order = {"script": str(script), "folder": str(tmp_path), "environment": given, "path": str(SCRIPTS)}
        return forkserver(order), (tmp_path / "output.log").read_text()

    return run


def test_no_entry_with_a_cure_is_left_out():
    tested = {script.stem for script in CURED} | BY_CONFIG | set(ELSEWHERE)
    assert {entry.id for entry in load_catalog() if entry.cures} <= tested


@pytest.mark.parametrize("script", CURED, ids=lambda path: path.stem)
def test_each_failure_is_diagnosed_and_the_script_trains_after_its_fixer(script, job, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    copy = tree / "train.py"
    copy.write_text(script.read_text())
    (tree / "requirements.txt").write_text(f"transformers=={version('transformers')}\n")
    history: list[str] = []
    status, output = job(copy)
    assert status == 1
    assert diagnose_text(output)[0].check == script.stem
    while status != 0:
        cure = next_cure(history, diagnose_text(output), {})
        assert cure is not None and cure.fixer, output[-2000:]
        history.append(cure.name)
        site = Site(DiskTree(tree), gpu=TURING, config={"command": ["python", "train.py"]})
        apply_to_disk(tree, plan_fixes(site, only=[cure.fixer]))
        status, output = job(copy)
    assert output.endswith("trained\n")
    assert diagnose_text(output) == ()


def test_half_the_batch_fits_and_a_step_sees_the_same_samples(job, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nif int(os.environ['BATCH']) > 4:\n"
        "    raise MemoryError('CUDA out of memory. Tried to allocate 5.76 GiB.')\nprint('trained')\n"
    )
    config = {"command": None, "train": {"micro_batch": 8, "gradient_checkpointing": True}}
    status, output = job(script, BATCH=str(config["train"]["micro_batch"]))
    assert status == 1
    cure = next_cure([], diagnose_text(output), config)
    assert set(cure.overrides) == {"train.micro_batch"}
    assert job(script, BATCH=str(cure.overrides["train.micro_batch"])) == (0, "trained\n")


def test_memory_fragmentation_is_cured_if_the_batch_size_is_not_configured(job, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nif 'expandable_segments:True' not in os.environ.get('PYTORCH_CUDA_ALLOC_CONF', ''):\n"
        "    raise MemoryError('CUDA out of memory. 6.1 GiB reserved by PyTorch but unallocated.')\nprint('trained')\n"
    )
    status, output = job(script)
    assert status == 1
    cure = next_cure([], diagnose_text(output), {"command": ["python", "train.py"]})
    given = {key.removeprefix("env."): value for key, value in cure.overrides.items()}
    assert job(script, **given) == (0, "trained\n")


@pytest.mark.parametrize("name", ["gradient-finite", "loss-zero-or-nan"])
def test_a_precision_that_does_not_train_is_replaced_by_one_that_does(name, job, tmp_path):
    """The script trains with its given plan, as the built-in trainer does."""
    script = tmp_path / "train.py"
    log = "print({'loss': 0.0, 'grad_norm': float('nan')})\n    raise SystemExit(1)"
    script.write_text(
        "import os, sys\nsys.path.insert(0, os.environ['SCRIPTS'])\nimport mini, torch\n"
        "if os.environ['PRECISION'] == 'fp16-mixed':\n    mini.train(mini.build())\n"
        "else:\n    model = mini.Mini().half()\n    optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)\n"
        "    for _ in range(3):\n        loss = model(**mini.batch())\n        loss.backward()\n"
        "        optimizer.step()\n        optimizer.zero_grad()\n"
        f"    {log}\nprint('trained')\n"
    )
    stop = "1" if name == "gradient-finite" else "0"
    requested = "fp16-pure"
    ran = {"SCRIPTS": str(SCRIPTS), "HALFSTEP_WATCH_STOP": stop}
    status, output = job(script, PRECISION=judge_precision(capability=(7, 5), requested=requested).mode.value, **ran)
    assert status == 1
    found = diagnose_text(output)
    assert found
    findings = [finding for finding in found if finding.check == name] or list(
        diagnose_text("halfstep stopped this training: gradient-finite: told by the watch's other line")
    )
    requested = next_cure([], findings, {"precision": requested}).overrides["precision"]
    status, output = job(script, PRECISION=judge_precision(capability=(7, 5), requested=requested).mode.value, **ran)
    assert (status, output) == (0, "trained\n")


def test_a_port_in_use_is_replaced_by_a_free_one(job, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, socket\nport = int(os.environ['MASTER_PORT'])\n"
        "with socket.socket() as server:\n    server.bind(('127.0.0.1', port))\nprint('trained')\n"
    )
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        status, output = job(script, MASTER_PORT=str(held.getsockname()[1]))
        assert status == 1
        assert diagnose_text(output)[0].check == "port-in-use", errno.EADDRINUSE
        cure = next_cure([], diagnose_text(output), {}, spent=["port"])
        asked = {key.removeprefix("env."): value for key, value in cure.overrides.items()}
        spec = JobSpec("r", 1, "f", ("python",), environment=asked)
        given = job_environment(spec, RunLayout(str(tmp_path)), Launch())
        assert given["MASTER_PORT"] == given["PET_MASTER_PORT"] != str(held.getsockname()[1])
        assert job(script, MASTER_PORT=given["MASTER_PORT"]) == (0, "trained\n")


@pytest.mark.parametrize(
    "words",
    [
        "OSError: We couldn't connect to 'the hub' to load the files",
        "CUDA-capable device(s) is/are busy or unavailable",
    ],
)
def test_a_temporary_failure_is_retried(words, job, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "from pathlib import Path\nif not Path('seen').exists():\n    Path('seen').touch()\n"
        f"    raise RuntimeError({words!r})\nprint('trained')\n"
    )
    status, output = job(script)
    assert status == 1
    assert next_cure([], diagnose_text(output), {}).name == "retry"
    assert job(script) == (0, "trained\n")
