"""audio-backends: compatible versions of the libraries that decode the project's audio are installed on the host.

What it does
    Reads the project's imports of soundfile, librosa, torchaudio, torchcodec and `datasets.Audio`. Reports the packages
    that the host's interpreter lacks, a torchcodec release that does not match torch, and missing FFmpeg libraries.
    Missing packages are installed into a venv that halfstep created. For any other interpreter, the finding shows the
    command. Packages that the environment fixer will install are not reported.

Why
    datasets 4 decodes audio only with torchcodec, which must match torch's minor version and needs the shared libraries
    of FFmpeg 4 to 8. Otherwise the first batch fails with `please install 'torchcodec'` or `Could not load
    libtorchcodec`. WAV and FLAC need neither torchcodec nor FFmpeg: soundfile includes its own library.

Before
    datasets 4 and no torchcodec on the host

After
    torchcodec 0.9 beside torch 2.9, or Audio(decode=False) and soundfile in the collator

What it can break
    Nothing: packages are added only to a venv that halfstep created.

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
from fixers.setup import environment
from fixers.setup.audio_imports import AudioUse, uses_of
from fixers.setup.project_packages import ProjectPackages, names_of
from remote.host import read_answer
from remote.protocol.audio import AudioFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.machine import Interpreter
from remote.protocol.shell import install_on_host, shell_command
from remote.protocol.tokenizer_files import version_of

name = "audio-backends"
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
"""The torch release that each torchcodec release needs, from the README of torchcodec 0.9."""
DATASETS_WITH_TORCHCODEC = (4,)
OLDEST_FFMPEG, NEWEST_FFMPEG = 4, 8


def plan(site: Site) -> Plan:
    """Report audio packages that the host lacks, and plan their installation in a venv that halfstep created."""
    survey, host, project = site.survey, site.host, site.project
    if survey is None or host is None or project is None or survey.interpreter.error:
        return Plan()
    use = uses_of(site.tree, built_in=site.config.get("command") is None and bool(site.config.get("model")))
    packages = {key.replace("_", "-").lower(): value for key, value in survey.interpreter.packages.items()}
    needed = needed_packages(use, packages)
    missing = _without_planned(site, [package for package in needed if package not in packages])
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


def _without_planned(site: Site, missing: Collection[str]) -> tuple[str, ...]:
    """Return the missing packages without those that the environment fixer plans to install from the requirements."""
    planned: frozenset[str] = frozenset()
    for change in environment.plan(site).changes if missing else ():
        if isinstance(change, HostChange):
            files, packages = change.args["requirements"], change.args["packages"]
            planned |= names_of(site.tree, ProjectPackages(tuple(files), tuple(packages)))
    return tuple(package for package in missing if package not in planned)


def needed_packages(use: AudioUse, packages: Mapping[str, str]) -> tuple[str, ...]:
    """Return the imported packages, and torchcodec if datasets 4 or newer decodes audio."""
    needed = set(use.packages)
    if use.datasets_audio and version_of(packages.get("datasets", "")) >= DATASETS_WITH_TORCHCODEC:
        needed.add("torchcodec")
    return tuple(sorted(needed))


def judge_torchcodec(packages: Mapping[str, str], facts: AudioFacts) -> tuple[Finding, ...]:
    """Return errors if torchcodec does not match torch, or if no supported FFmpeg libraries exist."""
    found: list[Finding] = []
    codec, torch = version_of(packages.get("torchcodec", "")), version_of(packages.get("torch", ""))
    wanted = TORCH_OF_TORCHCODEC.get((codec[0], codec[1])) if len(codec) > 1 else None
    if wanted is not None and torch and torch[:2] != wanted:
        have = packages["torch"]
        message = f"torchcodec {packages['torchcodec']} requires torch {_dotted(wanted)}, but torch {have} is installed"
        found.append(_error(message, shell_command("pip install {}", _requirement("torchcodec", packages))))
    if not any(OLDEST_FFMPEG <= release <= NEWEST_FFMPEG for release in facts.ffmpeg):
        message = f"torchcodec needs the shared libraries of FFmpeg {OLDEST_FFMPEG} to {NEWEST_FFMPEG}; none were found"
        found.append(_error(message, "apt-get install ffmpeg, or Audio(decode=False) and soundfile"))
    return tuple(found)


def _requirement(package: str, packages: Mapping[str, str]) -> str:
    """Return the pip requirement of the package, with the torchcodec release that matches the installed torch."""
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
    message = f"the project decodes audio with {package}, which is not installed for {interpreter.path}"
    return _error(message, install_on_host(interpreter.path, [package]))


def _error(message: str, hint: str) -> Finding:
    return error(name, message, "interpreter", hint, exit_code=ExitCode.ENVIRONMENT)


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
