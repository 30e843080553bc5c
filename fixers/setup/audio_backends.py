"""audio-backends: what the project decodes audio with is installed on the host, and fits together.

What it does
    Reads the project's imports for soundfile, librosa, torchaudio, torchcodec and datasets' Audio. Says which of them
    the host's interpreter lacks, whether torchcodec is the one made for its torch, and whether the FFmpeg libraries
    that torchcodec loads are there. Into a venv that halfstep made it installs what is missing; into any other it
    says the command.

Why
    datasets 4 decodes audio through torchcodec alone, which must fit torch to the minor version and needs the shared
    libraries of FFmpeg 4 to 8. The errors are `please install 'torchcodec'` and `Could not load libtorchcodec`, in the
    first batch. WAV and FLAC need neither: soundfile brings its own library.

Before
    datasets 4 and no torchcodec on the host

After
    torchcodec 0.9 beside torch 2.9, or Audio(decode=False) and soundfile in the collator

What it can break
    Nothing that it did not make: packages are added only to a venv of halfstep's own.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import Any

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import error, resolved
from fixers.frame.site import Site
from fixers.setup.audio_imports import AudioUse, uses_of
from remote.host import read_answer
from remote.protocol.audio import AudioFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.machine import Interpreter
from remote.protocol.tokenizer_files import version_of

name = "audio-backends"
version = 1
safety = "safe"

TORCH_OF_TORCHCODEC = {
    (0, 1): (2, 5),
    (0, 2): (2, 6),
    (0, 3): (2, 7),
    (0, 6): (2, 8),
    (0, 7): (2, 8),
    (0, 8): (2, 9),
    (0, 9): (2, 9),
}
"""From the table in torchcodec's README as of its 0.9; other releases are not judged."""
DATASETS_WITH_TORCHCODEC = (4,)
OLDEST_FFMPEG, NEWEST_FFMPEG = 4, 8


def plan(site: Site) -> Plan:
    """Report and, in halfstep's own venv, install what the host lacks to decode the project's audio."""
    survey, host, project = site.survey, site.host, site.project
    if survey is None or host is None or project is None or survey.interpreter.error:
        return Plan()
    use = uses_of(site.tree, built_in=site.config.get("command") is None and bool(site.config.get("model")))
    packages = {key.replace("_", "-").lower(): value for key, value in survey.interpreter.packages.items()}
    needed = needed_packages(use, packages)
    missing = tuple(package for package in needed if package not in packages)
    findings = tuple(_missing(package, survey.interpreter) for package in missing)
    changes: tuple[HostChange, ...] = ()
    if missing and survey.interpreter.path.startswith(posixpath.join(host.workdir, project.tree) + "/"):
        requirements = [_requirement(package, packages) for package in missing]
        changes = (_installation(site, project.key, survey.interpreter, requirements),)
        findings = tuple(resolved(finding) for finding in findings)
    if "torchcodec" in needed:
        facts = read_answer(AudioFacts, host, host.ask("fix.audio.look", {"environment": dict(site.environment)}))
        findings += judge_torchcodec(packages, facts)
    return Plan(findings, changes)


def needed_packages(use: AudioUse, packages: Mapping[str, str]) -> tuple[str, ...]:
    """What must be installed: what is imported, and torchcodec where datasets 4 or newer decodes audio."""
    needed = set(use.packages)
    if use.datasets_audio and version_of(packages.get("datasets", "")) >= DATASETS_WITH_TORCHCODEC:
        needed.add("torchcodec")
    return tuple(sorted(needed))


def judge_torchcodec(packages: Mapping[str, str], facts: AudioFacts) -> tuple[Finding, ...]:
    """Whether torchcodec fits torch, and FFmpeg's libraries fit torchcodec."""
    found: list[Finding] = []
    codec, torch = version_of(packages.get("torchcodec", "")), version_of(packages.get("torch", ""))
    wanted = TORCH_OF_TORCHCODEC.get((codec[0], codec[1])) if len(codec) > 1 else None
    if wanted is not None and torch and torch[:2] != wanted:
        message = (
            f"torchcodec {packages['torchcodec']} is made for torch {_dotted(wanted)}, and torch is {packages['torch']}"
        )
        found.append(_error(message, f'pip install "{_requirement("torchcodec", packages)}"'))
    if not any(OLDEST_FFMPEG <= release <= NEWEST_FFMPEG for release in facts.ffmpeg):
        message = f"no shared libraries of FFmpeg {OLDEST_FFMPEG} to {NEWEST_FFMPEG} were found, which torchcodec loads"
        found.append(_error(message, "apt-get install ffmpeg, or Audio(decode=False) and soundfile"))
    return tuple(found)


def _requirement(package: str, packages: Mapping[str, str]) -> str:
    """The package, in the release made for the torch that is there."""
    torch = version_of(packages.get("torch", ""))[:2]
    fitting = [codec for codec, made_for in TORCH_OF_TORCHCODEC.items() if made_for == torch]
    return f"torchcodec=={_dotted(max(fitting))}.*" if package == "torchcodec" and fitting else package


def _installation(site: Site, project: str, interpreter: Interpreter, wanted: Collection[str]) -> HostChange:
    args: dict[str, Any] = {
        "project": project,
        "fixer": name,
        "python": interpreter.path,
        "packages": sorted(wanted),
        "environment": dict(site.environment),
    }
    summary = f"install {', '.join(sorted(wanted))} into {interpreter.path}"
    return HostChange(name, summary, "fix.packages.install", args, undo="fix.undo")


def _missing(package: str, interpreter: Interpreter) -> Finding:
    message = f"the project decodes audio with {package}, and {interpreter.path} has none"
    return _error(message, f"{interpreter.path} -m pip install {package}")


def _error(message: str, hint: str) -> Finding:
    return error(name, message, "interpreter", hint, exit_code=ExitCode.ENVIRONMENT)


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
