"""What a host lacks is reported with numbers and the right exit code before anything is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.judgements.host import Need, judge_cards, judge_container, judge_disk, judge_interpreter, runs_on
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import NO_DRIVER, Disk, Driver, Gpu, GpuProcess, Interpreter, OwnContainer, Torch

GIB = 2**30
TURING_BUILD = Torch("2.6.0+cu124", "12.4", ("sm_50", "sm_75", "sm_80", "sm_90"))
PYTHON = Interpreter("/venv/bin/python", version=(3, 11, 2), torch=TURING_BUILD)
TITAN = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * GIB)
DRIVER = Driver("550.54.14", "12.4")
PLAIN = Need(GIB, built_in_trainer=False)
TRAINER = Need(GIB, built_in_trainer=True)
NAMED = Need(GIB, built_in_trainer=False, card_required=True)


OWN = OwnContainer("docker", "halfstep-1d", "torch@sha256:d1")


def words_of(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.check}: {finding.message} [{finding.hint}]" for finding in findings)


def test_the_hint_for_a_missing_interpreter_corrects_the_host_file() -> None:
    gone = replace(PYTHON, error="/venv/bin/python: there is no such file")
    [finding] = judge_interpreter(gone, replace(PLAIN, host_file="configs/hosts/t.yaml"))
    assert finding.where == "configs/hosts/t.yaml"
    assert "`python:`" in finding.hint
    assert "pip" not in finding.hint


@pytest.mark.parametrize(
    ("python", "need", "words"),
    [
        (replace(PYTHON, torch=None), PLAIN, ["/venv/bin/python has no torch", "--set fixers.environment=create"]),
        (replace(PYTHON, torch=None), replace(PLAIN, creates_environment=True), ["`run` creates an environment"]),
        (
            replace(PYTHON, torch=None),
            replace(PLAIN, lists_packages=False),
            [
                "has no torch; a new environment needs a requirements",
                "[write requirements.txt; then: pipeline run --set",
            ],
        ),
        (
            replace(PYTHON, torch=None),
            replace(PLAIN, lists_packages=False, script_packages=("transformers", "scikit-learn")),
            ["[write requirements.txt, one package a line: transformers, scikit-learn; then: pipeline run --set"],
        ),
        (replace(PYTHON, torch=Torch("2.5.1+cu121", "12.1")), TRAINER, ["found torch 2.5.1+cu121, need 2.6"]),
        (replace(PYTHON, version=(3, 8, 10)), PLAIN, ["found Python 3.8, need 3.9"]),
        (replace(PYTHON, version=(3, 9, 2)), TRAINER, ["found Python 3.9, need 3.10"]),
        (PYTHON, TRAINER, ["has no transformers, peft, accelerate, tensorboard, soundfile"]),
        (
            replace(PYTHON, packages=dict.fromkeys(("accelerate", "tensorboard", "soundfile", "peft"), "9")),
            TRAINER,
            ["has no transformers;", "/venv/bin/python -m pip install 'transformers>=5'"],
        ),
        (replace(PYTHON, error="bad interpreter"), PLAIN, ["/venv/bin/python does not run: bad interpreter"]),
        (
            replace(PYTHON, error="there is no such file"),
            replace(PLAIN, creates_environment=True),
            ["does not run: there is no such file; `run` creates an environment [pipeline run]"],
        ),
    ],
)
def test_BI_44_an_interpreter_that_cannot_train_is_exit_20(python: Interpreter, need: Need, words: list[str]) -> None:
    found = list(judge_interpreter(python, need))
    assert found
    assert {(finding.severity, finding.exit_code) for finding in found} == {(Severity.ERROR, ExitCode.ENVIRONMENT)}
    for word in words:
        assert word in words_of(found)


CARDS = [
    (
        replace(PYTHON, torch=Torch("2.6.0+cpu", None, ())),
        DRIVER,
        ExitCode.ENVIRONMENT,
        ["torch 2.6.0+cpu is a CPU build and cannot use TITAN RTX"],
    ),
    (
        replace(PYTHON, torch=Torch("2.9.0+cu130", "13.0", ("sm_75", "sm_80"))),
        DRIVER,
        ExitCode.GPU,
        ["torch 2.9.0+cu130 needs CUDA 13.0", "driver 550.54.14 supports up to 12.4"],
    ),
    (
        replace(PYTHON, torch=Torch("2.8.0+cu128", "12.8", ("sm_80", "sm_90"))),
        DRIVER,
        ExitCode.GPU,
        ["torch 2.8.0+cu128 has no kernels for TITAN RTX 7.5", "sm_80 sm_90"],
    ),
]


@pytest.mark.parametrize(("python", "driver", "code", "words"), CARDS, ids=["cpu-build", "cuda-newer", "no-code"])
def test_BI_44_a_build_that_cannot_use_the_card_names_both_versions(
    python: Interpreter, driver: Driver, code: ExitCode, words: list[str]
) -> None:
    [finding] = judge_cards(driver, (TITAN,), python, PLAIN)
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, code)
    for word in words:
        assert word in finding.message


@pytest.mark.parametrize("cuda", ["12.1", "12.4", "12.8", "11.8"])
def test_BI_44_a_driver_of_the_same_family_or_a_newer_one_runs_the_build(cuda: str) -> None:
    python = replace(PYTHON, torch=replace(TURING_BUILD, cuda=cuda))
    assert list(judge_cards(DRIVER, (TITAN,), python, PLAIN)) == []


@pytest.mark.parametrize(
    ("need", "severity", "code"),
    [(NAMED, Severity.ERROR, ExitCode.GPU), (PLAIN, Severity.WARNING, ExitCode.OK)],
    ids=["cards-named", "cards-not-named"],
)
def test_BI_45_no_card_is_an_error_if_the_host_file_names_some(need: Need, severity: Severity, code: ExitCode) -> None:
    [finding] = judge_cards(Driver(error=NO_DRIVER), (), PYTHON, need)
    assert (finding.check, finding.severity, finding.exit_code) == ("gpu", severity, code)
    assert "no nvidia-smi" in finding.message


def test_SE_15_a_driver_that_hangs_is_an_error_whose_hint_says_how_to_use_the_cpu() -> None:
    [finding] = judge_cards(Driver(error="nvidia-smi does not answer"), (), PYTHON, NAMED)
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, ExitCode.GPU)
    assert "nvidia-smi does not answer" in finding.message and "host.gpus=[]" in finding.hint


def test_BI_45_without_cards_a_cpu_build_is_accepted() -> None:
    python = replace(PYTHON, torch=Torch("2.6.0+cpu", None, ()))
    assert list(judge_cards(Driver(error=NO_DRIVER), (), python, PLAIN)) == []


def test_BI_45_a_card_that_others_fill_is_reported_with_memory_and_users() -> None:
    busy = replace(TITAN, used_bytes=20 * GIB, processes=(GpuProcess(4711, "python", 20 * GIB),))
    [finding] = judge_cards(DRIVER, (busy,), PYTHON, PLAIN)
    assert finding.severity is Severity.WARNING
    for word in ("21.5 GB of 25.8 GB", "pid 4711 python", "TITAN RTX"):
        assert word in finding.message
    assert "stale-processes" in finding.hint


@pytest.mark.parametrize(("share", "findings"), [(0.0, 0), (0.09, 0), (0.11, 1), (1.0, 1)])
def test_BI_45_a_desktop_on_the_card_is_not_called_busy(share: float, findings: int) -> None:
    used = replace(TITAN, used_bytes=int(share * TITAN.memory_bytes))
    assert len(list(judge_cards(DRIVER, (used,), PYTHON, PLAIN))) == findings


@pytest.mark.parametrize(
    ("arch_list", "capability", "runs"),
    [
        (("sm_75",), (7, 5), True),
        (("sm_70",), (7, 5), True),
        (("sm_80",), (7, 5), False),
        (("sm_86",), (8, 0), False),
        (("compute_70",), (8, 0), True),
        (("compute_80",), (7, 5), False),
        (("sm_90a",), (9, 0), True),
        (("sm_100",), (10, 0), True),
        (("sm_100",), (1, 0), False),
        ((), (7, 5), False),
        (("gfx90a",), (9, 0), False),
        (("sm_7\u00b2", "sm_", "sm_7", "sm_" + "7" * 99), (7, 5), False),
    ],
)
def test_BI_45_a_build_runs_only_on_cards_of_its_architectures(
    arch_list: tuple[str, ...], capability: tuple[int, int], runs: bool
) -> None:
    assert runs_on(arch_list, capability) is runs


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (Disk("/w", "/", 10, 10**12, 10**6), ["10 B free on /", "1.1 GB needed"]),
        (Disk("/w", "/", 10**12, 10**12, 7), ["7 free inodes on /"]),
        (Disk("/w", "/", 10**12, 10**12, 10**6, error="over the disk quota"), ["/w cannot be written", "quota"]),
    ],
)
def test_BI_46_a_disk_that_will_not_hold_the_run_is_exit_22(disk: Disk, words: list[str]) -> None:
    [finding] = judge_disk(disk, PLAIN)
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, ExitCode.DISK)
    for word in words:
        assert word in finding.message


def test_little_free_disk_space_is_only_a_warning() -> None:
    need = replace(PLAIN, usual_bytes=5 * 10**9)
    [finding] = judge_disk(Disk("/w", "/data", 4 * 10**9, 10**12, 10**6), need)
    assert (finding.check, finding.severity) == ("disk", Severity.WARNING)
    assert "4.0 GB free on /data" in finding.message
    assert list(judge_disk(Disk("/w", "/data", 5 * 10**9, 10**12, 10**6), need)) == []


def test_a_workdir_that_cannot_be_written_is_reported_with_the_setting_to_change() -> None:
    [finding] = judge_disk(Disk("/srv/w/runs", "/", 10**12, 10**12, 10**6, error="/srv may not be written"), PLAIN)
    assert (finding.where, finding.hint) == (
        "/srv/w/runs",
        "set `workdir:` to a folder of your own",
    )


def test_the_hint_for_a_workdir_on_a_full_disk_is_df() -> None:
    [finding] = judge_disk(Disk("/w", "/data", 10**12, 10**12, 10**6, error="no space left on the file system"), PLAIN)
    assert finding.hint == "df -h /data   (on the host)"


def test_a_moved_tag_is_a_warning_that_says_how_to_use_the_new_image() -> None:
    assert list(judge_container(None)) == list(judge_container(OWN)) == []
    [finding] = judge_container(replace(OWN, newer="torch@sha256:d2"))
    assert (finding.check, finding.severity) == ("container-image", Severity.WARNING)
    assert "now refers to torch@sha256:d2; the container runs torch@sha256:d1" in finding.message
    assert finding.hint == "docker rm -f halfstep-1d   (on the host)"
