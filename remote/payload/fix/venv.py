"""One venv on the host: made with the base Python, its pip brought up to date, packages weighed and installed."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import asdict, dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from remote.payload.fix.downloads import PLANS_WITHOUT_DOWNLOADING, parse_report, reachable, require_room, weigh
from remote.payload.fix.installing import PIP, Tell, run_alive
from remote.payload.fix.pip_output import PipOutput
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

PipVersion = Tuple[int, ...]

RAW_PROGRESS: PipVersion = (24, 1)
"""The first pip that prints `Progress BYTES of BYTES` where its output is no terminal."""
APT = re.compile(r"apt(?:-get)? install (\S+)")
NO_VENV = ("ensurepip is not", "No module named venv", "No module named ensurepip")
ATTEMPTS = ("--retries", "1")


@dataclass(frozen=True)
class Venv:
    """The venv at `path`, and what commands in it run with: in the project's tree, holding the descriptor `lock`."""

    call: Call
    path: str
    tree: str
    environment: Dict[str, str]
    lock: int

    @property
    def python(self) -> str:
        return os.path.join(self.path, "bin", "python")

    def run(self, argv: List[str], complaint: str, tell: Optional[Tell] = None) -> str:
        """What the command printed. Raises Refusal, EOFError; see run_alive."""
        return run_alive(self.call, argv, self.environment, complaint, cwd=self.tree, keep=(self.lock,), tell=tell)

    def make(self, base: str) -> None:
        """The venv has a Python and a pip; where `base` has no ensurepip, as on Debian, uv (if any) brings pip."""
        self.call.push({"doing": f"making {os.path.basename(self.path)} with {base}"})
        try:
            self.run([base, "-m", "venv", self.path], f"{base} could not make a venv")
        except Refusal as refusal:
            if not any(words in refusal.message for words in NO_VENV):
                raise
            uv = shutil.which("uv", path=self.environment.get("PATH"))
            if uv is None:
                raise _without_venv(base, refusal) from None
            words = [uv, "venv", "--seed", "--allow-existing", "--no-project", "--python", base, self.path]
            self.run(words, f"{base} has no ensurepip, and uv could not make a venv with it")

    def newest_pip(self, sources: Sequence[str], *, offline: bool) -> PipVersion:
        """The version of the venv's pip, brought up to date where an index answers: an old one cannot say beforehand
        what it would download."""
        pip = [self.python, *PIP]
        if not offline:
            self.call.push({"doing": "updating pip"})
            try:
                self.run([*pip, "install", *ATTEMPTS, *sources, "--upgrade", "pip"], "pip could not be updated")
            except Refusal as refusal:
                self.call.push({"note": refusal.message.splitlines()[0]})
        printed = self.run([*pip, "--version"], "pip does not run").split()
        return tuple(int(part) for part in printed[1].split(".") if part.isdigit()) if len(printed) > 1 else ()

    def extra_index(self, index: str) -> List[str]:
        """pip's arguments for an index with torch builds for one kind of machine; none where it cannot be reached."""
        if not index:
            return []
        if reachable(index):
            return ["--extra-index-url", index]
        self.call.push({"note": f"{index} does not answer: torch is taken from the host's usual package index"})
        return []

    def weigh(self, pip: PipVersion, words: Sequence[str], temporary: str) -> None:
        """The laptop has the size of the downloads before they begin. Raises Refusal where the disk is too small."""
        if pip < PLANS_WITHOUT_DOWNLOADING:
            return
        self.call.push({"doing": "planning the installation"})
        report = os.path.join(temporary, "report.json")
        plan = ["install", "--dry-run", "--quiet", "--use-feature=fast-deps", "--report", report]
        try:
            self.run([self.python, *PIP, *plan, *words], "pip could not plan the installation")
        except Refusal:
            # The installation itself runs into the same problem, and its own words are the better ones.
            return
        with open(report, "rb") as file:
            downloads = weigh(parse_report(file.read()))
        free = shutil.disk_usage(self.path).free
        self.call.push({"downloads": asdict(downloads), "free_bytes": free})
        require_room(downloads, free, self.path)

    def install(self, pip: PipVersion, words: Sequence[str], what: str) -> None:
        """pip has installed these arguments; its output reaches the laptop as events."""
        progress = ["--progress-bar", "raw"] if pip >= RAW_PROGRESS else []
        argv = [self.python, *PIP, "install", *progress, *words]
        self.run(argv, f"{what} could not be installed", PipOutput().event)


def _without_venv(base: str, refusal: Refusal) -> Refusal:
    apt = APT.search(refusal.message)
    package = apt.group(1) if apt else "python3-venv"
    return Refusal(
        "no-venv",
        f"{base} on the host cannot make a venv: its module venv or ensurepip is missing",
        where=base,
        hint=f"sudo apt install {package}",
        exit_code=ExitCode.ENVIRONMENT,
    )
