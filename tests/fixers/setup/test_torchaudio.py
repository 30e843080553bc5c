"""The torchaudio that fits the installed torch, and the audio packages of the files that a command reaches."""

import pytest

from fixers.setup import audio_backends
from remote.protocol.audio import AudioFacts
from remote.protocol.findings import Severity
from remote.protocol.machine import Interpreter, Torch
from remote.protocol.values import encode
from tests.fixers.setup.test_audio_backends import OR_OFF, OURS, THEIRS, installation, lacks, plan_of
from tests.fixers.setup_rig import site_at, survey_of
from tests.lab.fake_host import FakeHost


@pytest.mark.parametrize(
    ("torch", "wanted", "index"),
    [
        ("2.8.0+cu128", "torchaudio==2.8.*", "https://download.pytorch.org/whl/cu128"),
        ("2.13.0+cpu", "torchaudio==2.11.*", "https://download.pytorch.org/whl/cpu"),
        ("2.13.0", "torchaudio==2.11.*", ""),
        ("2.13.0+local.build", "torchaudio==2.11.*", ""),
        ("", "torchaudio", ""),
    ],
)
def test_torchaudio_is_installed_in_the_release_and_build_of_the_installed_torch(torch, wanted, index):
    plan, _ = plan_of(b"import torchaudio", {"torch": torch}, OURS)
    assert plan.changes == (installation(wanted, index=index),)


@pytest.mark.parametrize(
    ("audio", "torch", "severity"),
    [
        ("2.11.0", "2.13.0", None),
        ("2.9.1", "2.9.1+cu128", None),
        ("2.9.1+cu128", "2.9.1+cu128", None),
        ("2.9.1+cpu", "2.9.1+cu128", None),
        ("2.8.0", "2.9.1", Severity.WARNING),
        ("2.11.0+cu130", "2.15.0+cu132", Severity.ERROR),
        ("2.11.0", "2.13.0+cpu", Severity.WARNING),
        ("2.9.1", "2.9.1+cpu", Severity.WARNING),
        ("2.11.0+cpu", "2.13.0+cpu", None),
        ("2.11.0", "2.13.0+cu130", None),
    ],
)
def test_an_installed_torchaudio_fits_the_installed_torch(audio, torch, severity):
    plan, _ = plan_of(b"import torchaudio", {"torchaudio": audio, "torch": torch})
    assert [finding.severity for finding in plan.findings] == ([severity] if severity else [])


def test_a_cuda_build_beside_a_cpu_torch_is_replaced_from_the_index_of_cpu_builds():
    plan, _ = plan_of(b"import torchaudio", {"torchaudio": "2.11.0", "torch": "2.13.0+cpu"})
    (finding,) = plan.findings
    assert finding.message.endswith("is built for CUDA, but the installed torch 2.13.0+cpu is a CPU build")
    install = "pip install 'torchaudio==2.11.*' --force-reinstall --no-deps"
    assert finding.hint == f"{install} --index-url https://download.pytorch.org/whl/cpu"


def found_for(torch, cuda=None, path=THEIRS):
    interpreter = Interpreter(path, torch=Torch(torch, cuda), packages={"torch": torch})
    host = FakeHost()
    site = site_at(host, {"train.py": b"import torchaudio\n"}, survey=survey_of(interpreter=interpreter))
    return audio_backends.plan(site)


@pytest.mark.parametrize(
    ("torch", "cuda", "words"),
    [
        ("2.13.0+cpu", None, "'torchaudio==2.11.*' --index-url https://download.pytorch.org/whl/cpu)"),
        ("2.13.0+cu130", "13.0", "'torchaudio==2.11.*' --index-url https://download.pytorch.org/whl/cu130)"),
        ("2.13.0", "13.0", "'torchaudio==2.11.*')"),
        ("2.13.0", None, "'torchaudio==2.11.*')"),
        ("2.8.0+cu129", "12.9", "'torchaudio==2.8.*' --index-url https://download.pytorch.org/whl/cu129)"),
        ("2.15.0+local.build", "13.2", "'torchaudio==2.11.*')"),
        ("2.12.0+xpu", None, "'torchaudio==2.11.*')"),
    ],
)
def test_the_hint_installs_the_torchaudio_of_the_build_of_torch(torch, cuda, words):
    (finding,) = found_for(torch, cuda).findings
    assert words in finding.hint and "soundfile" not in finding.hint


@pytest.mark.parametrize(("torch", "cuda"), [("2.15.0+cu132", "13.2"), ("2.15.0", "13.2"), ("2.12.0+cu132", None)])
@pytest.mark.parametrize("path", [THEIRS, OURS])
def test_without_a_torchaudio_for_the_torch_none_is_proposed_or_installed(torch, cuda, path):
    plan = found_for(torch, cuda, path)
    (finding,) = plan.findings
    assert not plan.changes
    assert f"no torchaudio exists for torch {torch} (cu132)" in finding.message
    assert "soundfile" in finding.hint and "pip install" not in finding.hint


@pytest.mark.parametrize(
    ("code", "audio", "needed"),
    [
        (b"import torchaudio\ntorchaudio.load(path)\n", "2.11.0", True),
        (b"import torchaudio as ta\nwave, rate = ta.load(path)\n", "2.9.0", True),
        (b"from torchaudio import load\n", "2.10.0", True),
        (b"import torchaudio\ntorchaudio.load(path)\n", "2.8.0", False),
        (b"import torchaudio\ntorchaudio.transforms.Resample(8000)\n", "2.11.0", False),
        (b"import torch, torchaudio\ntorch.load(path)\n", "2.11.0", False),
    ],
)
def test_torchaudio_load_needs_torchcodec_since_torchaudio_2_9(code, audio, needed):
    plan, _ = plan_of(code, {"torchaudio": audio, "torch": audio})
    messages = [finding.message for finding in plan.findings]
    message = f"torchaudio.load of torchaudio {audio} needs torchcodec, which is not installed for {THEIRS}"
    assert messages == ([message] if needed else [])


OTHER_FILE = {"durations.py": b"import librosa\n", "own/reader.py": b"import soundfile\n", "own/__init__.py": b""}
PLACES = {"librosa": "durations.py:1", "soundfile": "own/reader.py:1"}


@pytest.mark.parametrize(
    ("command", "script", "packages", "end"),
    [
        (["python", "train.py"], b"import torch\n", set(), OR_OFF),
        (["python", "train.py"], b"def read():\n    from own import reader\n", {"soundfile"}, OR_OFF),
        (["accelerate", "launch", "train.py"], b"from durations import length\n", {"librosa"}, ""),
    ],
)
def test_only_the_files_that_the_command_reaches_count(command, script, packages, end):
    host = FakeHost()
    survey = survey_of(interpreter=Interpreter(THEIRS, torch=Torch("2.9.1")))
    site = site_at(host, {"train.py": script, **OTHER_FILE}, survey=survey, config={"command": command})
    found = {lacks(each, where=PLACES[each], end=end) for each in packages}
    assert set(audio_backends.plan(site).findings) == found


HYDRA = b"import hydra\nfrom own import reader\n"
UNKNOWN_START = b"import torch\n"


@pytest.mark.parametrize(
    ("command", "script", "severities"),
    [
        (["python", "train.py"], HYDRA, {"soundfile": Severity.ERROR, "librosa": Severity.WARNING}),
        (
            ["python", "train.py"],
            b"import subprocess, durations\n",
            {"soundfile": Severity.WARNING, "librosa": Severity.ERROR},
        ),
        (["bash", "train.sh"], UNKNOWN_START, {"soundfile": Severity.WARNING, "librosa": Severity.WARNING}),
        ((), UNKNOWN_START, {"soundfile": Severity.ERROR, "librosa": Severity.ERROR}),
    ],
)
def test_a_file_that_the_command_may_not_load_causes_only_a_warning(command, script, severities):
    survey = survey_of(interpreter=Interpreter(THEIRS, torch=Torch("2.9.1")))
    files = {"train.py": script, **OTHER_FILE}
    found = audio_backends.plan(site_at(FakeHost(), files, survey=survey, config={"command": command})).findings
    assert {one.where: one.severity for one in found} == {PLACES[each]: grade for each, grade in severities.items()}
    for one in found:
        assert one.message.endswith(audio_backends.IN_OTHER_FILES) == (one.severity is Severity.WARNING)


EXAMPLE = b"import torchaudio\ntorchaudio.load(path)\n"


@pytest.mark.parametrize(
    ("script", "other", "severities"),
    [
        (b"import hydra, torchaudio\n", EXAMPLE, [Severity.WARNING] * 2),
        (b"import hydra, torchaudio\ntorchaudio.load(path)\n", b"", [Severity.ERROR] * 2),
        (b"import hydra, torchaudio\ntorchaudio.load(path)\n", EXAMPLE, [Severity.ERROR] * 2),
        (EXAMPLE + b"import hydra\n", b"import torchaudio\ntorchaudio.load = read\n", [Severity.WARNING] * 2),
        (b"import hydra, torchaudio\ntorchaudio.load = read\n", EXAMPLE, []),
    ],
)
def test_torchcodec_and_ffmpeg_of_another_example_do_not_stop_the_run(script, other, severities):
    host = FakeHost(operations={"fix.audio.look": lambda _: encode(AudioFacts())})
    survey = survey_of(
        interpreter=Interpreter(THEIRS, torch=Torch("2.9.1"), packages={"torch": "2.9.1", "torchaudio": "2.9.1"})
    )
    files = {"asr/train.py": script, "captions/model.py": other}
    site = site_at(host, files, survey=survey, config={"command": ["python", "asr/train.py"]})
    assert [one.severity for one in audio_backends.plan(site).findings] == severities


@pytest.mark.parametrize(
    ("torch", "found"), [(None, ()), (Torch("2.9.1"), (lacks("librosa", where="train.py:1", end=""),))]
)
def test_without_torch_the_audio_packages_are_not_reported(torch, found):
    survey = survey_of(interpreter=Interpreter(THEIRS, torch=torch))
    config = {"command": ["python", "train.py"]}
    site = site_at(FakeHost(), {"train.py": b"import librosa\n"}, survey=survey, config=config)
    assert audio_backends.plan(site).findings == found


@pytest.mark.parametrize(
    ("command", "script", "places"),
    [
        (["bash", "run.sh"], b"python train.py --fp16\n", []),
        (["./run.sh", "-s", "tiny"], b"cd scripts && torchrun ../train.py\n", []),
        (["bash", "-c", "python train.py"], b"", []),
        (["bash", "-c", "./run.sh --all"], b"SCRIPT=train.py\npython $SCRIPT\n", []),
        (["bash", "run.sh"], b"python train.py\npython app/app.py\n", ["app/app.py:2"]),
        (["bash", "run.sh"], b"python -m app.app\n", ["app/app.py:2"]),
        (["bash", "run.sh", "app/app.py"], b"python $1\n", ["app/app.py:2"]),
        (["bash", "run.sh"], b"make all\n", ["app/app.py:2"]),
    ],
)
def test_only_the_files_that_the_shell_scripts_of_a_command_start_count(command, script, places):
    files = {"run.sh": script, "train.py": b"import torch\n", "app/app.py": b"import os\nimport torchaudio\n"}
    survey = survey_of(interpreter=Interpreter(THEIRS, torch=Torch("2.9.1")))
    site = site_at(FakeHost(), files, survey=survey, config={"command": command})
    assert [finding.where for finding in audio_backends.plan(site).findings] == places
