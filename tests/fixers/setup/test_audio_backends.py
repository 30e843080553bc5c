"""What a host lacks to decode a project's audio, tested with tables and a fake host."""

import shlex

import pytest

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import resolved
from fixers.setup import audio_backends
from fixers.setup.audio_backends import judge_torchcodec, needed_packages
from fixers.setup.audio_imports import AudioUse
from remote.protocol.audio import AudioFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Interpreter
from remote.protocol.values import encode
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.fake_host import FakeHost

FFMPEG = AudioFacts((6,))
TREE = f"/home/fake/halfstep/{PROJECT.tree}"
OURS, THEIRS = f"{TREE}/venv/bin/python", "/usr/bin/python3"


def error(message, hint, where="interpreter"):
    return Finding("audio-backends", Severity.ERROR, message, where, hint, ExitCode.ENVIRONMENT)


OR_OFF = ', or fixers: {audio-backends: "off"} if the command does not use it'


def lacks(package, python=THEIRS, where="a.py:1", end=OR_OFF):
    return error(
        f"the project decodes audio with {package}, which is not installed for {python}",
        f"(cd / && {python} -m pip install {package})   (on the host){end}",
        where,
    )


NO_FFMPEG = error(
    "torchcodec needs the shared libraries of FFmpeg 4 to 8; none were found",
    f"apt-get install ffmpeg, or Audio(decode=False) and soundfile{OR_OFF}",
)


def misfit(codec, wanted, torch, fitting):
    message = f"torchcodec {codec} requires torch {wanted}, but torch {torch} is installed"
    return error(message, f"pip install {shlex.quote(fitting)}{OR_OFF}")


@pytest.mark.parametrize(
    ("use", "packages", "needed"),
    [
        (AudioUse(), {}, ()),
        (AudioUse(frozenset({"soundfile", "librosa"})), {}, ("librosa", "soundfile")),
        (AudioUse(datasets_audio=True), {"datasets": "4.0.0"}, ("torchcodec",)),
        (AudioUse(datasets_audio=True), {"datasets": "4"}, ("torchcodec",)),
        (AudioUse(datasets_audio=True), {"datasets": "10.1"}, ("torchcodec",)),
        (AudioUse(datasets_audio=True), {"datasets": "3.6.0"}, ()),
        (AudioUse(datasets_audio=True), {}, ()),
        (AudioUse(), {"datasets": "4.1.0"}, ()),
        (AudioUse(frozenset({"soundfile"}), True), {"datasets": "4.1.0"}, ("soundfile", "torchcodec")),
    ],
)
def test_datasets_4_decodes_through_torchcodec(use, packages, needed):
    assert needed_packages(use, packages) == needed


PAIRS = [
    ("0.1.1", "2.5.1"),
    ("0.2", "2.6.0"),
    ("0.3.0", "2.7.1"),
    ("0.6.0", "2.8.0"),
    ("0.7.0", "2.8.0+cu128"),
    ("0.8.1", "2.9.0"),
    ("0.9.1", "2.9.1+cu126"),
]


@pytest.mark.parametrize(("codec", "torch"), PAIRS)
def test_matching_releases_cause_no_finding(codec, torch):
    assert judge_torchcodec({"torchcodec": codec, "torch": torch}, FFMPEG) == ()


@pytest.mark.parametrize(
    ("codec", "wanted", "torch", "fitting"),
    [
        ("0.1.1", "2.5", "2.6.0", "torchcodec==0.2.*"),
        ("0.9.1", "2.9", "2.5.1", "torchcodec==0.1.*"),
        ("0.9", "2.9", "2.7.0+cu128", "torchcodec==0.3.*"),
        ("0.9.1", "2.9", "2.8.0", "torchcodec==0.7.*"),
        ("0.7", "2.8", "2.9.0", "torchcodec==0.9.*"),
        ("0.8.0", "2.9", "2.10.0", "torchcodec"),
    ],
)
def test_a_mismatch_names_the_release_that_fits_the_installed_torch(codec, wanted, torch, fitting):
    packages = {"torchcodec": codec, "torch": torch}
    assert judge_torchcodec(packages, FFMPEG) == (misfit(codec, wanted, torch, fitting),)


@pytest.mark.parametrize(
    "packages",
    [
        {"torchcodec": "0.14", "torch": "2.13"},
        {"torchcodec": "0.4.0", "torch": "2.13"},
        {"torchcodec": "0.9.1"},
        {"torchcodec": "unknown", "torch": "2.9"},
        {"torchcodec": "1", "torch": "2.9"},
        {"torch": "2.9"},
        {},
    ],
)
def test_releases_that_are_not_known_are_not_judged(packages):
    assert judge_torchcodec(packages, FFMPEG) == ()


@pytest.mark.parametrize(
    ("releases", "found"),
    [
        ((), False),
        ((3,), False),
        ((4,), True),
        ((6,), True),
        ((8,), True),
        ((9,), False),
        ((3, 9), False),
        ((3, 5), True),
    ],
)
def test_torchcodec_loads_ffmpeg_4_to_8(releases, found):
    packages = {"torchcodec": "0.9", "torch": "2.9"}
    assert judge_torchcodec(packages, AudioFacts(releases)) == (() if found else (NO_FFMPEG,))


def test_a_mismatch_and_missing_libraries_are_both_reported():
    findings = judge_torchcodec({"torchcodec": "0.7", "torch": "2.9"}, AudioFacts())
    assert findings == (misfit("0.7", "2.8", "2.9", "torchcodec==0.9.*"), NO_FFMPEG)


def plan_of(code, packages=None, python=THEIRS, look=FFMPEG, **known):
    """Return the plan for a project with this code, and the requests to the host."""
    asked = []

    def answer(args):
        asked.append(args)
        return encode(look)

    host = FakeHost(operations={"fix.audio.look": answer})
    survey = survey_of(interpreter=Interpreter(python, packages=packages or {}, error=known.pop("error", "")))
    site = site_at(host, {"a.py": code}, **{"survey": survey, "environment": {"LD_LIBRARY_PATH": "/l"}, **known})
    return audio_backends.plan(site), asked


DATASETS = b"from datasets import Audio\nd.cast_column('a', Audio())"


@pytest.mark.parametrize(
    ("code", "packages", "findings"),
    [
        (b"import torch", {}, ()),
        (b"import soundfile", {"soundfile": "0.13"}, ()),
        (b"import soundfile", {}, (lacks("soundfile"),)),
        (b"import soundfile, librosa", {}, (lacks("librosa"), lacks("soundfile"))),
        (b"import soundfile, librosa", {"Librosa": "0.11"}, (lacks("soundfile"),)),
    ],
)
def test_missing_packages_of_an_interpreter_outside_the_project_are_only_reported(code, packages, findings):
    assert plan_of(code, packages) == (Plan(findings), [])


def installation(*packages, index=""):
    args = {
        "project": PROJECT.key,
        "fixer": "audio-backends",
        "python": OURS,
        "packages": list(packages),
        "build_index": index,
        "environment": {"LD_LIBRARY_PATH": "/l"},
    }
    summary = f"install {', '.join(packages)} into {OURS}"
    return HostChange("audio-backends", summary, "fix.packages.install", args, undo="fix.undo")


def test_packages_missing_in_the_projects_own_venv_are_installed_at_once():
    plan, _ = plan_of(b"import soundfile, librosa", {"torch": "2.9.0"}, OURS)
    assert plan.findings == (resolved(lacks("librosa", OURS)), resolved(lacks("soundfile", OURS)))
    assert plan.changes == (installation("librosa", "soundfile"),)


def test_what_is_installed_is_not_installed_again():
    assert plan_of(b"import soundfile", {"soundfile": "0.13"}, OURS) == (Plan(), [])


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        ("2.9.1", "torchcodec==0.9.*"),
        ("2.8.0+cu126", "torchcodec==0.7.*"),
        ("2.13.0", "torchcodec"),
        ("", "torchcodec"),
    ],
)
def test_the_release_of_torchcodec_that_is_installed_is_the_one_for_this_torch(torch, wanted):
    plan, asked = plan_of(DATASETS, {"datasets": "4.1.0", "torch": torch}, OURS)
    assert plan.changes == (installation(wanted),)
    assert asked == [{"environment": {"LD_LIBRARY_PATH": "/l"}}]


def test_packages_other_than_torchcodec_are_installed_in_the_release_that_pip_chooses():
    plan, _ = plan_of(DATASETS + b"\nimport soundfile", {"datasets": "4.1.0", "torch": "2.9.1"}, OURS)
    assert plan.changes == (installation("soundfile", "torchcodec==0.9.*"),)


def test_missing_ffmpeg_libraries_are_reported_with_or_without_an_installation():
    packages = {"datasets": "4.1.0", "torch": "2.9.1"}
    ours, _ = plan_of(DATASETS, packages, OURS, AudioFacts())
    assert ours == Plan(
        (resolved(lacks("torchcodec", OURS, "a.py:2")), NO_FFMPEG), (installation("torchcodec==0.9.*"),)
    )
    theirs, _ = plan_of(DATASETS, packages, THEIRS, AudioFacts())
    assert theirs == Plan((lacks("torchcodec", where="a.py:2"), NO_FFMPEG))


def test_an_installed_torchcodec_is_judged_and_kept():
    packages = {"datasets": "4.1.0", "torch": "2.9.1", "torchcodec": "0.7.0"}
    plan, _ = plan_of(DATASETS, packages, OURS)
    assert plan == Plan((misfit("0.7.0", "2.8", "2.9.1", "torchcodec==0.9.*"),))


@pytest.mark.parametrize(
    ("config", "findings"),
    [
        ({"model": {"id": "a/b"}}, (lacks("soundfile", where="interpreter", end=""),)),
        ({"model": {"id": "a/b"}, "command": None}, (lacks("soundfile", where="interpreter", end=""),)),
        ({"model": {"id": "a/b"}, "command": ["python", "a.py"]}, ()),
        ({"model": None}, ()),
        ({}, ()),
    ],
)
def test_the_built_in_trainer_needs_soundfile(config, findings):
    assert plan_of(b"import torch", config=config) == (Plan(findings), [])


@pytest.mark.parametrize("known", [{"survey": None}, {"project": None}, {"error": "gone"}])
def test_nothing_is_reported_without_a_survey_project_or_working_interpreter(known):
    assert plan_of(b"import soundfile", **known) == (Plan(), [])


def test_a_folder_on_the_laptop_is_not_judged():
    assert audio_backends.plan(site_at(None, {"a.py": b"import soundfile"})) == Plan()


def test_a_sibling_folder_that_shares_the_trees_prefix_is_outside_the_project():
    plan, _ = plan_of(b"import soundfile", {}, f"{TREE}-old/venv/bin/python")
    assert plan.changes == ()


@pytest.mark.parametrize(
    ("requirements", "setting", "findings"),
    [
        (b"SoundFile>=0.13\n", "create", ()),
        (b"-r audio.txt\n", "create", ()),
        (b"numpy\n", "create", (lacks("soundfile"),)),
        (b"soundfile\n", "auto", (lacks("soundfile"),)),
    ],
)
def test_packages_of_the_environment_that_will_be_created_are_not_reported(requirements, setting, findings):
    files = {"a.py": b"import soundfile", "requirements.txt": requirements, "audio.txt": b"soundfile\n"}
    settings = {"environment": setting}
    site = site_at(FakeHost(), files, survey=survey_of(interpreter=Interpreter(THEIRS)), settings=settings)
    assert audio_backends.plan(site) == Plan(findings)
