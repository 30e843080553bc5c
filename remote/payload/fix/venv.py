"""A venv on the host: create it, upgrade its pip, plan and install packages."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import asdict
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from remote.payload.fix.downloads import PLANS_WITHOUT_DOWNLOADING, parse_report, reachable, require_room, sum_downloads
from remote.payload.fix.installing import PIP, run_command
from remote.payload.fix.pip_output import PipOutput
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode

PipVersion = Tuple[int, ...]

RAW_PROGRESS: PipVersion = (24, 1)
"""The first version of pip that prints `Progress BYTES of BYTES` when its output is not a terminal."""
APT = re.compile(r"apt(?:-get)? install (\S+)")
NO_VENV = ("ensurepip", "No module named venv")
UV_FOLDERS = (".local/bin", ".cargo/bin")
ATTEMPTS = ("--retries", "1")


@dataclass(frozen=True)
class Venv:
    """The venv at `path`. Its commands run in the project's tree and inherit the descriptor `lock`."""

    call: Call
    path: str
    tree: str
    environment: Dict[str, str]
    lock: int

    @property
    def python(self) -> str:
        return os.path.join(self.path, "bin", "python")

    def run(self, argv: List[str], failure: str, pip: Optional[PipOutput] = None) -> str:
        """Run a command and return its output. Raises Refusal and EOFError like `run_command`."""
        # Python imports from the working folder first, unless it is isolated. The pip of the venv needs the tree, for
        # relative paths. The base interpreter is not isolated, because its pip may be in the user's site-packages.
        own = argv[0] == self.python
        argv, cwd = ([self.python, "-I", *argv[1:]], self.tree) if own else (argv, self.path)
        return run_command(self.call, argv, self.environment, failure, cwd=cwd, keep=(self.lock,), pip=pip)

    def make(self, base: str) -> None:
        """Create the venv with pip.

        If `base` has no ensurepip, as on Debian, install pip with uv or with the pip of `base`.
        """
        self.call.push({"doing": f"creating {os.path.basename(self.path)} with {base}"})
        try:
            self.run([base, "-m", "venv", self.path], f"{base} could not create a venv")
        except Refusal as refusal:
            if not any(phrase in refusal.message for phrase in NO_VENV):
                raise
            if uv := _find_uv(self.environment):
                phrase = [uv, "venv", "--seed", "--allow-existing", "--no-project", "--python", base, self.path]
                self.run(phrase, f"{base} has no ensurepip, and uv could not create a venv with it")
            elif not self._made_with_pip_of(base):
                raise _without_venv(base, refusal) from None

    def _made_with_pip_of(self, base: str) -> bool:
        """Create the venv without ensurepip and install pip with the pip of `base`.

        Return False if `base` has no venv module or no pip.
        """
        install = ["--python", self.python, "install", *ATTEMPTS, "pip"]
        try:
            self.run([base, "-m", "venv", "--without-pip", self.path], f"{base} could not create a venv")
            self.run([base, *PIP, *install], f"the pip of {base} could not install pip")
        except Refusal as refusal:
            if refusal.exit_code == ExitCode.DISK:
                raise
            self.call.push({"note": refusal.message.splitlines()[0]})
            return False
        return True

    def upgrade_pip(self, sources: Sequence[str], *, offline: bool) -> PipVersion:
        """Upgrade pip if a package index answers, since old versions cannot plan a download. Return pip's version."""
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
        """Return pip's arguments for an index of torch builds, or an empty list if the index cannot be reached."""
        if not index:
            return []
        if reachable(index):
            return ["--extra-index-url", index]
        self.call.push({"note": f"{index} does not respond; torch is installed from the host's usual package index"})
        return []

    def report_downloads(self, pip: PipVersion, arguments: Sequence[str], temporary: str) -> None:
        """Push the size of the downloads before they begin. Raises Refusal if the disk is too small."""
        if pip < PLANS_WITHOUT_DOWNLOADING:
            return
        self.call.push({"doing": "planning the installation"})
        report = os.path.join(temporary, "report.json")
        plan = ["install", "--dry-run", "--quiet", "--use-feature=fast-deps", "--report", report]
        try:
            self.run([self.python, *PIP, *plan, *arguments], "pip could not plan the installation")
        except Refusal:
            # The installation itself will fail for the same reason, with a better message.
            return
        with open(report, "rb") as file:
            downloads = sum_downloads(parse_report(file.read()))
        free = shutil.disk_usage(self.path).free
        self.call.push({"downloads": asdict(downloads), "free_bytes": free})
        require_room(downloads, free, self.path)

    def install(self, pip: PipVersion, arguments: Sequence[str], what: str) -> None:
        """Run `pip install`; push its progress as events."""
        progress = ["--progress-bar", "raw"] if pip >= RAW_PROGRESS else []
        argv = [self.python, *PIP, "install", *progress, *arguments]
        self.run(argv, f"{what} could not be installed", PipOutput(self.path))


def _find_uv(environment: Mapping[str, str]) -> Optional[str]:
    """Return the path of uv, or None.

    The installer of uv writes to folders that are not on the PATH of an SSH command.
    """
    home_folders = [os.path.join(environment.get("HOME", "/"), folder) for folder in UV_FOLDERS]
    return shutil.which("uv", path=os.pathsep.join([environment.get("PATH", os.defpath), *home_folders]))


def _without_venv(base: str, refusal: Refusal) -> Refusal:
    apt = APT.search(refusal.message)
    package = apt.group(1) if apt else "python3-venv"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return Refusal(
        "no-venv",
        f"{base} on the host cannot create a venv: its module venv or ensurepip is missing",
        where=base,
        hint=f"{sudo}apt-get update && {sudo}apt-get install -y {package}",
        exit_code=ExitCode.ENVIRONMENT,
    )
