"""audio-backends: compatible versions of the libraries that decode the project's audio are installed on the host.

What it does
    Reads the imports of soundfile, librosa, torchaudio, torchcodec and `datasets.Audio` in the files that the command
    reaches, also through shell scripts. Reports the packages that the host's interpreter lacks (with the file and line
    of an import), a torchcodec or torchaudio release that does not match torch, and missing FFmpeg libraries.

    Findings are errors only for files that the command certainly reaches. A script that starts programs, imports
    modules by computed names or uses Hydra may load other files too: their packages are warnings.

    Missing packages are installed into a venv that halfstep created. For any other interpreter, the finding shows the
    command. Packages that the environment fixer will install are not reported.

    A name counts only if it was imported from `datasets` or from these packages: `wandb.Audio`, a class of the
    project or a module of the project does not. A column with `Audio(decode=False)` is not decoded. `torchaudio.load`
    needs nothing if the project assigns a function of its own to it, as in `torchaudio.load = read`. If the command
    decodes no audio although its code could, use `fixers: {audio-backends: "off"}`.

Why
    datasets 4 decodes audio only with torchcodec, which must match torch's minor version and needs the shared libraries
    of FFmpeg 4 to 8. Otherwise the first batch fails with `please install 'torchcodec'` or `Could not load
    libtorchcodec`. `torchaudio.load` calls torchcodec since torchaudio 2.9. torchaudio needs the torch release and the
    CUDA version that it was built for: otherwise its import fails with `Detected that PyTorch and TorchAudio were
    compiled with different CUDA versions` or `Could not load this library`. Its last release, 2.11, also serves newer
    releases of torch, but only builds for CPU and for CUDA 12.6, 12.8 and 13.0; pip installs the build for CUDA 13.0
    unless an index is named. WAV and FLAC need neither torchcodec nor FFmpeg: soundfile includes its own
    library.

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
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import error, resolved, warning
from fixers.frame.site import Site
from fixers.setup import environment
from fixers.setup.audio_imports import AudioUse, uses_of
from fixers.setup.project_packages import ProjectPackages, names_of
from fixers.setup.torch_companions import NEWEST_TORCHAUDIO, TORCHAUDIO, TORCHAUDIO_BUILDS
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
BUILD = re.compile(r"cpu|cu\d{2,3}")
DATASETS_WITH_TORCHCODEC = (4,)
TORCHAUDIO_WITH_TORCHCODEC = (2, 9)
"""torchaudio.load calls torchcodec since this release (torchaudio 2.9, `load_with_torchcodec`)."""
OR_OFF = ', or fixers: {audio-backends: "off"} if the command does not use it'
"""The end of a hint about a package that the command may not use although its code does."""
IN_OTHER_FILES = "it is not known whether the command loads this code"
OLDEST_FFMPEG, NEWEST_FFMPEG = 4, 8
INSTEAD = (
    f"read the audio with soundfile (WAV, FLAC) or torchcodec, or install torch {'.'.join(map(str, NEWEST_TORCHAUDIO))}"
    " and the torchaudio of the same number"
)


def plan(site: Site) -> Plan:
    """Report audio packages that the host lacks, and plan their installation in a venv that halfstep created."""
    survey, host, project = site.survey, site.host, site.project
    if survey is None or host is None or project is None or _lacks_more(site, survey.interpreter):
        return Plan()
    command = site.config.get("command")
    use = uses_of(site.tree, built_in=command is None and bool(site.config.get("model")), command=command or ())
    packages, build = _by_name(survey.interpreter), build_of_torch(survey.interpreter)
    needed = needed_packages(use, packages)
    doubtful = set(needed).difference(needed_packages(use.reached, packages) if use.reached is not None else needed)
    planned = _plan_missing(site, survey.interpreter, [each for each in needed if each not in packages], use, doubtful)
    findings = _graded(judge_torchaudio(needed, packages, build), is_doubtful=TORCHAUDIO in doubtful)
    if "torchcodec" in needed:
        facts = read_answer(AudioFacts, host, host.ask("fix.audio.look", {"environment": dict(site.environment)}))
        of_codec = _graded(judge_torchcodec(packages, facts), is_doubtful="torchcodec" in doubtful)
        findings = (*of_codec, *findings)
    return planned.plus(Plan(findings))


def _graded(findings: Iterable[Finding], *, is_doubtful: bool) -> tuple[Finding, ...]:
    """Return warnings instead of errors if only files that the command may not load use the package."""
    if not is_doubtful:
        return tuple(findings)
    return tuple(warning(one.check, f"{one.message}; {IN_OTHER_FILES}", one.where, one.hint) for one in findings)


def _plan_missing(
    site: Site, interpreter: Interpreter, lacking: Collection[str], use: AudioUse, doubtful: Collection[str]
) -> Plan:
    """Return a finding for each package that nothing else installs, and the installation of those that exist."""
    host, project = site.host, site.project
    packages, missing = _by_name(interpreter), _without_planned(site, lacking)
    lacks = {package: (_missing(package, interpreter, packages, use),) for package in missing}
    found = {package: _graded(one, is_doubtful=package in doubtful)[0] for package, one in lacks.items()}
    without = {TORCHAUDIO} if lacks_torchaudio(packages, build_of_torch(interpreter)) else set()
    existing = [each for each in missing if each not in without]
    if host is None or project is None or not existing:
        return Plan(tuple(found.values()))
    if not interpreter.path.startswith(posixpath.join(host.workdir, project.tree) + "/"):
        return Plan(tuple(found.values()))
    found |= {package: resolved(found[package]) for package in existing}
    return Plan(tuple(found.values()), (_installation(site, project.key, interpreter, existing, packages),))


def _by_name(interpreter: Interpreter) -> dict[str, str]:
    return {key.replace("_", "-").lower(): value for key, value in interpreter.packages.items()}


def _lacks_more(site: Site, interpreter: Interpreter) -> bool:
    """Return True if the interpreter does not run, or has no torch and no new environment is requested.

    This is reported elsewhere, and its cure is another interpreter or a new environment.
    """
    without_torch = bool(site.config.get("command")) and interpreter.torch is None
    return bool(interpreter.error) or (
        without_torch and not environment.is_requested(site.settings.get(environment.name))
    )


def _without_planned(site: Site, missing: Collection[str]) -> tuple[str, ...]:
    """Return the missing packages without those that the environment fixer plans to install from the requirements."""
    planned: frozenset[str] = frozenset()
    for change in environment.plan(site).changes if missing else ():
        if isinstance(change, HostChange):
            files, packages = change.args["requirements"], change.args["packages"]
            planned |= names_of(site.tree, ProjectPackages(tuple(files), tuple(packages)))
    return tuple(package for package in missing if package not in planned)


def needed_packages(use: AudioUse, packages: Mapping[str, str]) -> tuple[str, ...]:
    """Return the imported packages, and torchcodec if datasets 4 or torchaudio 2.9, or a newer one, decodes audio."""
    needed = set(use.packages)
    if use.datasets_audio and version_of(packages.get("datasets", "")) >= DATASETS_WITH_TORCHCODEC:
        needed.add("torchcodec")
    if use.torchaudio_load and version_of(packages.get("torchaudio", "")) >= TORCHAUDIO_WITH_TORCHCODEC:
        needed.add("torchcodec")
    return tuple(sorted(needed))


def build_of_torch(interpreter: Interpreter) -> str:
    """Return the build of the installed torch, such as cpu or cu130, or "" if it is unknown."""
    torch = interpreter.torch
    tag = _by_name(interpreter).get("torch", "").partition("+")[2]
    return tag or (f"cu{torch.cuda.replace('.', '')}" if torch is not None and torch.cuda else "")


def lacks_torchaudio(packages: Mapping[str, str], build: str) -> bool:
    """Return True if no torchaudio exists for the installed torch: it is newer than the last one, in another build."""
    is_newer = version_of(packages.get("torch", ""))[:2] > NEWEST_TORCHAUDIO
    return is_newer and BUILD.fullmatch(build) is not None and build not in TORCHAUDIO_BUILDS


def judge_torchaudio(needed: Collection[str], packages: Mapping[str, str], build: str) -> tuple[Finding, ...]:
    """Return an error if the installed torchaudio was built for another release of torch, or for another CUDA.

    Beside a CPU build of torch, a torchaudio without a tag is a warning: pip's default build is for CUDA.
    """
    torch, audio = packages.get("torch", ""), packages.get("torchaudio", "")
    if "torchaudio" not in needed or not audio or not torch:
        return ()
    is_fitting = min(version_of(torch)[:2], NEWEST_TORCHAUDIO) == version_of(audio)[:2]
    builds = {text.partition("+")[2] for text in (torch, audio)}
    other_cuda = len(builds) == 2 and all(tag.startswith("cu") for tag in builds)
    message = _describe_misfit(torch, audio, build, is_same=is_fitting and not other_cuda)
    if not message or min(len(version_of(torch)), len(version_of(audio))) < 2:
        return ()
    index = f" --index-url {index_of(torch)}" if index_of(torch) else ""
    again = " --force-reinstall --no-deps" if is_fitting else ""
    hint = shell_command("pip install {}", _requirement("torchaudio", packages)) + again + index
    hint = INSTEAD if lacks_torchaudio(packages, build) else hint
    return (_error(message, hint) if other_cuda else warning(name, message, "interpreter", hint),)


def _describe_misfit(torch: str, audio: str, build: str, *, is_same: bool) -> str:
    """Return why torchaudio does not fit torch, or "". `is_same`: their releases and versions of CUDA fit."""
    if not is_same:
        return f"torchaudio {audio} was built for another torch than the installed torch {torch}"
    if build != "cpu" or "+" in audio:
        return ""
    return f"torchaudio {audio} is built for CUDA, but the installed torch {torch} is a CPU build"


def index_of(torch: str) -> str:
    """Return the package index of the torch build, or "" if the version does not name its build."""
    build = torch.partition("+")[2]
    return environment.OFFICIAL_INDEX.replace("{build}", build) if BUILD.fullmatch(build) else ""


def judge_torchcodec(packages: Mapping[str, str], facts: AudioFacts) -> tuple[Finding, ...]:
    """Return errors if torchcodec does not match torch, or if no supported FFmpeg libraries exist."""
    found: list[Finding] = []
    codec, torch = version_of(packages.get("torchcodec", "")), version_of(packages.get("torch", ""))
    wanted = TORCH_OF_TORCHCODEC.get((codec[0], codec[1])) if len(codec) > 1 else None
    if wanted is not None and torch and torch[:2] != wanted:
        have = packages["torch"]
        message = f"torchcodec {packages['torchcodec']} requires torch {_dotted(wanted)}, but torch {have} is installed"
        install = shell_command("pip install {}", _requirement("torchcodec", packages))
        found.append(_error(message, f"{install}{OR_OFF}"))
    if not any(OLDEST_FFMPEG <= release <= NEWEST_FFMPEG for release in facts.ffmpeg):
        message = f"torchcodec needs the shared libraries of FFmpeg {OLDEST_FFMPEG} to {NEWEST_FFMPEG}; none were found"
        found.append(_error(message, f"apt-get install ffmpeg, or Audio(decode=False) and soundfile{OR_OFF}"))
    return tuple(found)


def _requirement(package: str, packages: Mapping[str, str]) -> str:
    """Return the pip requirement of the package, with the release of torchaudio or torchcodec for this torch."""
    torch = version_of(packages.get("torch", ""))[:2]
    if package == "torchaudio" and len(torch) == 2:
        return f"torchaudio=={_dotted(min(torch, NEWEST_TORCHAUDIO))}.*"
    fitting = [codec for codec, made_for in TORCH_OF_TORCHCODEC.items() if made_for == torch]
    return f"torchcodec=={_dotted(max(fitting))}.*" if package == "torchcodec" and fitting else package


def _installation(
    site: Site, project: str, interpreter: Interpreter, missing: Collection[str], packages: Mapping[str, str]
) -> HostChange:
    wanted = sorted(_requirement(package, packages) for package in missing)
    args: dict[str, Any] = {
        "project": project,
        "fixer": name,
        "python": interpreter.path,
        "packages": wanted,
        "build_index": index_of(packages.get("torch", "")) if "torchaudio" in missing else "",
        "environment": dict(site.environment),
    }
    summary = f"install {', '.join(wanted)} into {interpreter.path}"
    return HostChange(name, summary, "fix.packages.install", args, undo="fix.undo")


def _missing(package: str, interpreter: Interpreter, packages: Mapping[str, str], use: AudioUse) -> Finding:
    only_torchaudio = package == "torchcodec" and package not in use.packages and not use.datasets_audio
    reason = f"torchaudio.load of torchaudio {packages.get('torchaudio')} needs" if only_torchaudio else ""
    message = f"{reason or 'the project decodes audio with'} {package}, which is not installed for {interpreter.path}"
    fitting, build = only_torchaudio or package == TORCHAUDIO, build_of_torch(interpreter)
    index = index_of(packages.get("torch", "")) if package == TORCHAUDIO else ""
    words = [_requirement(package, packages) if fitting else package, *(("--index-url", index) if index else ())]
    hint = install_on_host(interpreter.path, words)
    if package == TORCHAUDIO and lacks_torchaudio(packages, build):
        message += f"; no torchaudio exists for torch {packages['torch']} ({build})"
        hint = INSTEAD
    hint += "" if package in use.always else OR_OFF
    return _error(message, hint, use.places.get(package, "interpreter"))


def _error(message: str, hint: str, where: str = "interpreter") -> Finding:
    return error(name, message, where, hint, exit_code=ExitCode.ENVIRONMENT)


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
