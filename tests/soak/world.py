"""A laptop, a connection and a server whose state can be saved and restored."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.user import ROOT, User
from tests.lab.chaos import ChaosProxy
from tests.lab.sshd import Sshd
from tests.soak.laptop import Laptop, Running

SCRIPT = Path(__file__).with_name("train.py")
CONFIG = (
    "# pipeline run --host titan --config {name}\n"
    "project: .\ncommand: [python, src/train.py]\ntrain: {{max_steps: 24}}\n"
    "env: {{SOAK_ROOT: {root}{more}}}\n"
)
BFLOAT = "import torch\n\nDTYPE = torch.bfloat16\nNUMBER = {number}\n"


@dataclass
class World:
    """All changing files are in `place` or in the server's home, always at the same paths."""

    place: Path
    server: Sshd
    proxy: ChaosProxy
    saved: Path
    laptop: Laptop

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def user(self) -> User:
        temporary = self.place / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        return User(self.project, self.place / "laptop", {"TMPDIR": str(temporary)})

    @property
    def hosts(self) -> Path:
        """The folder of the host file, which is not restored between rounds."""
        return self.saved.parent / "hosts"

    def start(self, config: str, until: str, *more: str) -> Running:
        """Start `pipeline run` up to that stage."""
        user = self.user
        return self.laptop.start((*self.words(config, until), *more), user.project, user.environment_of_commands)

    def words(self, config: str, until: str) -> tuple[str, ...]:
        """Return the arguments of the command."""
        return ("run", "--host", str(self.hosts / "titan.yaml"), "--config", config, "--until", until)

    @property
    def remote(self) -> Path:
        """The project's folder on the host."""
        projects = (self.server.home / "halfstep" / "projects").iterdir()
        [folder] = (each for each in projects if (each / "runs").is_dir() or (each / "tree").is_dir())
        return folder

    def save(self, name: str) -> None:
        """Save the current state under that name."""
        for source, label in ((self.place, "local"), (self.server.home, "remote")):
            (self.saved / name).mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", source, self.saved / name / label], check=True)

    def put_back(self, name: str) -> None:
        """Restore the state that was saved under that name."""
        for target, label in ((self.place, "local"), (self.server.home, "remote")):
            shutil.rmtree(target)
            subprocess.run(["cp", "-a", self.saved / name / label, target], check=True)

    def close(self) -> None:
        self.laptop.close()
        self.server.close()
        self.proxy.close()


def new_world(root: Path) -> World:
    """Create a user who has never connected to the server, and the first version of the project."""
    server = Sshd(root / "server", environment={"TMPDIR": str(root / "server" / "home" / "tmp")}).start()
    (server.home / "tmp").mkdir()
    proxy = ChaosProxy((server.listen, server.port)).start()
    server.through(proxy.port)
    world = World(root / "world", server, proxy, root / "saved", Laptop(root / "modules"))
    world.user.write_host_file(
        "titan", server, folder=world.hosts, port=proxy.port, python=sys.executable, card="titan-rtx"
    )
    write_project(world.project)
    return world


def write_project(root: Path) -> None:
    """Write two configs of one script, with files that a fixer rewrites and other files."""
    (root / "src").mkdir(parents=True)
    (root / "configs").mkdir()
    shutil.copyfile(SCRIPT, root / "src" / "train.py")
    for number in range(12):
        (root / "src" / f"part_{number}.py").write_text(f"VALUE = {number}\n" * (200 * (number + 1)))
    for number in range(4):
        (root / "src" / f"half_{number}.py").write_text(BFLOAT.format(number=number))
    for name, more in (("light", ""), ("torch", ", SOAK_TORCH: '1'")):
        (root / "configs" / f"{name}.yaml").write_text(CONFIG.format(name=name, root=ROOT, more=more))


def change_project(root: Path) -> None:
    """Write the second version: changed, new and deleted files, some of which a fixer has rewritten."""
    for number in (0, 5):
        (root / "src" / f"part_{number}.py").write_text("VALUE = 'second'\n" * 3000)
    (root / "src" / "half_0.py").write_text(BFLOAT.format(number="'second'"))
    (root / "src" / "half_4.py").write_text(BFLOAT.format(number=4))
    for name in ("part_1.py", "part_2.py", "half_1.py"):
        (root / "src" / name).unlink()
    (root / "src" / "more").mkdir()
    for number in range(8):
        (root / "src" / "more" / f"new_{number}.py").write_text(f"NEW = {number}\n" * 500)


def digests(root: Path, *, without: str = "") -> dict[str, str]:
    """Map every file under `root`, except in the folder `without`, to its SHA-256 and mode."""
    found = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and relative.parts[0] != without:
            mode = path.stat().st_mode & 0o777
            found[str(relative)] = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {mode:o}"
    return found
