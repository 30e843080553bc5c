"""A survey returns the whole state of a host, changes nothing, and copes with missing and hanging cards."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from remote.operations.jobs import probe_environment
from remote.payload.probes.gpu import parse_cards, read_gpus, start_gpu_queries
from remote.payload.probes.machine import read_disk
from remote.payload.probes.python import read_packages
from remote.protocol.environment import EnvironmentRequest
from remote.protocol.layout import ProjectLayout
from remote.protocol.machine import Driver
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

TITAN = "0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA TITAN RTX, 7.5, 24220, 310, Default, 550.54.15"
A100 = "1, GPU-99999999-2222-3333-4444-555555555555, NVIDIA A100-SXM4-80GB, 8.0, 81920, 0, Exclusive_Process, 550.54.15"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put scripts first on PATH: `smi("nvidia-smi", shell text)`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    return put


def _answers(cards: str, processes: str = "", code: int = 0) -> str:
    return f"""case "$1" in
--query-gpu=*) cat <<'END'
{cards}
END
exit {code};;
--query-compute-apps=*) cat <<'END'
{processes}
END
esac"""


def test_the_survey_lists_cards_and_their_processes(bench: Bench, smi):
    bench.start("--until", "/never")
    pid = until(lambda: bench.events("begin"), "the trainer")[0]["pid"]
    bench.host.close()
    uuid = TITAN.split(", ")[1]
    smi(
        "nvidia-smi",
        _answers(f"{TITAN}\n{A100}", f"{uuid}, {pid}, python, train.py, 4096\n{uuid}, 999999999, game, 512"),
    )
    survey = bench.look()
    titan, a100 = survey.gpus
    assert (titan.name, titan.capability, titan.memory_bytes) == ("NVIDIA TITAN RTX", (7, 5), 24220 * 2**20)
    assert (a100.compute_mode, survey.driver) == ("Exclusive_Process", Driver("550.54.15"))
    mine, other = titan.processes
    assert (mine.pid, mine.name, mine.used_bytes, mine.ours) == (pid, "python, train.py", 4096 * 2**20, bench.run)
    assert (other.name, other.user, other.ours) == ("game", "", "")
    assert bench.look(gpus=(1,)).gpus == (a100,)
    assert survey.gpu == titan, "precision is judged by the weakest card"


def test_a_card_is_assumed_only_without_a_driver(bench: Bench, smi, tmp_path: Path):
    card = ("titan-rtx", (7, 5))
    survey = bench.look(card=card)
    assert [(gpu.name, gpu.capability, gpu.assumed) for gpu in survey.gpus] == [("titan-rtx", (7, 5), True)]
    assert bench.look().gpus == ()
    smi("nvidia-smi", _answers(A100))
    bench.host.close()
    assert [(gpu.capability, gpu.assumed) for gpu in bench.look(card=card).gpus] == [((8, 0), False)]
    smi("nvidia-smi", "echo No devices were found; exit 6")
    assert [gpu.assumed for gpu in bench.look(card=card).gpus] == [True]


def test_FI_50_a_hanging_nvidia_smi_is_given_up_after_its_deadline(smi):
    smi("nvidia-smi", "sleep 600")
    began = time.monotonic()
    driver, gpus = read_gpus(start_gpu_queries(0.3), None, ("titan-rtx", (7, 5)))
    assert time.monotonic() - began < 30
    assert "hangs" in driver.error
    assert gpus == ()


def test_FI_51_a_lost_card_is_reported_with_the_kernels_message_and_never_assumed(bench: Bench, smi):
    smi("nvidia-smi", _answers("Unable to determine the device handle for GPU0000:01:00.0: Unknown Error", code=255))
    smi("dmesg", "echo '[ 9.1] NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.'; echo other")
    survey = bench.look(card=("titan-rtx", (7, 5)))
    assert "Unable to determine the device handle" in survey.driver.error
    assert "Xid (PCI:0000:01:00): 79" in survey.driver.error
    assert survey.gpus == ()


def test_a_driver_that_reports_no_compute_capability_is_an_error(bench: Bench, smi):
    old = TITAN.replace(", 7.5", "").replace("550.54.15", "470.223.02")
    smi("nvidia-smi", f"""case "$1" in
*compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
--query-gpu=*) echo '{old}';;
esac""")  # fmt: skip
    survey = bench.look()
    assert "unknown capability" in survey.driver.error
    assert survey.gpus == ()


@pytest.mark.parametrize(
    ("code", "text", "error", "cards"),
    [
        (0, f"{TITAN}\n{A100}\n", "", 2),
        (0, f"{TITAN}\nUnable to determine the device handle for GPU 0000:41:00.0: GPU is lost.\n", "Unable", 1),
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "couldn't", 0),
        (6, "No devices were found\n", "", 0),
        (0, "", "", 0),
        (1, "", "exit status 1", 0),
        (0, TITAN.replace("24220", "[N/A]"), "", 1),
    ],
)
def test_the_output_of_nvidia_smi_is_parsed(code: int, text: str, error: str, cards: int):
    driver, gpus = parse_cards(code, text)
    assert error in driver.error
    assert bool(error) == bool(driver.error)
    assert len(gpus) == cards


def test_the_interpreter_is_read_without_importing_torch(bench: Bench):
    survey = bench.look()
    interpreter = survey.interpreter
    assert interpreter.version == sys.version_info[:3]
    assert interpreter.prefix == sys.prefix
    assert interpreter.torch.version.startswith("2.")
    assert interpreter.torch.arch_list is None, "only the slow look can know"
    assert interpreter.packages["transformers"]


def test_the_slow_probe_is_cached_until_the_interpreter_changes(bench: Bench):
    facts = probe_environment(
        bench.host, EnvironmentRequest(PROJECT, bench.python, packages=("torch",), write_bytes=2**20)
    )
    assert facts.error == ""
    assert facts.imports == {"torch": ""}
    assert facts.disk.error == ""
    assert bench.look().interpreter.torch.arch_list == facts.interpreter.torch.arch_list == ()


def test_a_package_that_does_not_import_is_named_with_its_error(bench: Bench):
    request = EnvironmentRequest(PROJECT, bench.python, packages=("json", "no_such_package"), write_bytes=2**20)
    facts = probe_environment(bench.host, request)
    assert facts.imports == {"json": "", "no_such_package": "ModuleNotFoundError: No module named 'no_such_package'"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.symlink_to("/nowhere/python3"), "dangling link"),
        (lambda path: path.write_text("#!/bin/sh\necho broken >&2; exit 3\n"), "exit status 3: broken"),
        (lambda path: path.write_text("#!/nowhere/python\n"), "no such file"),
    ],
)
def test_FI_35_an_interpreter_that_does_not_run_is_reported_with_the_reason(bench: Bench, make, words: str):
    path = bench.workdir / ProjectLayout(PROJECT).tree / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    make(path)
    if path.exists():
        path.chmod(0o755)
    bench.python = "venv/bin/python"
    interpreter = bench.look().interpreter
    assert interpreter.path == str(path)
    assert words in interpreter.error


def test_FI_35_a_replaced_interpreter_is_detected(bench: Bench):
    path = bench.workdir / ProjectLayout(PROJECT).tree / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.symlink_to(sys.executable)
    bench.python = "venv/bin/python"
    probe_environment(bench.host, EnvironmentRequest(PROJECT, bench.python, packages=("json",), write_bytes=2**20))
    before = bench.look().interpreter
    path.unlink()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    after = bench.look().interpreter
    assert before.realpath != after.realpath
    assert after.realpath == str(path)


def test_versions_come_from_the_first_place_on_the_path(tmp_path: Path):
    for place, version in (("first", "5.1.0"), ("second", "4.0.0")):
        folder = tmp_path / place / f"Transformers-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: transformers\nVersion: {version}\n\nVersion: 0\n"
        )
    assert read_packages((str(tmp_path / "first"), str(tmp_path / "second"))) == {"transformers": "5.1.0"}


def test_a_survey_changes_nothing_on_the_host(bench: Bench):
    bench.start("--steps", 4, "--save-every", 2)
    until(lambda: bench.survey().result, "the end")

    def picture() -> dict:
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in projects.rglob("*")}

    projects = bench.workdir / "projects"
    before = picture()
    bench.look()
    assert picture() == before


def test_the_disk_of_the_workdir_is_measured(bench: Bench):
    survey = bench.look()
    assert survey.disk.free_bytes > 0
    assert survey.disk.error == ""


@pytest.mark.root
def test_a_disk_that_cannot_be_written_is_reported(tmp_path: Path):
    assert read_disk("/proc/sys/nowhere").error
    (tmp_path / "locked").mkdir(mode=0o500)
    if os.getuid() != 0:
        assert "may not be written" in read_disk(str(tmp_path / "locked" / "runs")).error


def test_a_known_interpreter_is_not_run_again(bench: Bench, tmp_path: Path):
    count, python = tmp_path / "count", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho run >> {count}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    bench.python = str(python)
    bench.look()
    probe_environment(bench.host, EnvironmentRequest(PROJECT, bench.python, packages=("json",), write_bytes=2**20))
    before = count.read_text()
    assert bench.look().interpreter.version == sys.version_info[:3]
    assert count.read_text() == before
