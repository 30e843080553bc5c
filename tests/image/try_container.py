"""Run tiny with `container:` on a host with a real engine, over a real sshd. Argument: an image with the trainer."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pipeline.config.hosts import load_host  # noqa: E402
from pipeline.hosts.trust import keep_trust  # noqa: E402
from remote.link.container import Container  # noqa: E402
from tests.lab.sshd import Sshd  # noqa: E402

(image,) = sys.argv[1:]
TAG = "halfstep-try-container"
OTHER = "halfstep-base:bookworm"


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True, timeout=120).stdout


def write_host(project: Path, server: Sshd, *lines: str) -> None:
    address = server.address()
    text = [
        f"host: {address.host}",
        f"port: {address.port}",
        f"user: {address.user}",
        f"identity_file: {address.identity_file}",
        f"known_hosts: {address.known_hosts}",
        "python: /opt/halfstep/bin/python",
        *lines,
    ]
    (project / "configs/hosts/rig.yaml").write_text("\n".join(text) + "\n")
    keep_trust(load_host("rig", project))


def check_host(project: Path) -> dict[str, object]:
    words = [ROOT / ".venv/bin/pipeline", "hosts", "check", "rig", "--json"]
    done = subprocess.run(words, cwd=project, capture_output=True, timeout=120, check=False)
    found: dict[str, object] = json.loads(done.stdout)
    return found


with tempfile.TemporaryDirectory() as folder:
    os.environ["XDG_CONFIG_HOME"] = folder
    project = Path(folder) / "project"
    (project / "configs/hosts").mkdir(parents=True)
    docker("tag", image, TAG)
    server = Sshd(Path(folder) / "rig").start()
    # container.sh appends the id of the user on the host.
    name = f"{Container(TAG, shm_size='1g').name('~/halfstep')}-{server.home.stat().st_uid}"
    try:
        write_host(project, server, f"container: {{image: {TAG}, shm_size: 1g}}")
        subprocess.run([sys.executable, ROOT / "tests/image/try_stop.py", "rig", name], cwd=project, check=True)
        owners = {path.stat().st_uid for path in (server.home / "halfstep").rglob("*")}
        assert owners == {server.home.stat().st_uid}, owners

        docker("tag", OTHER, TAG)
        moved = check_host(project)
        assert "container" in [finding["check"] for finding in moved["findings"]], moved  # type: ignore[attr-defined]
        print("   a moved tag: the container keeps its image, and says so")

        write_host(project, server, "container: {image: no-such-image-of-halfstep}")
        missing = check_host(project)
        assert missing["exit_code"] == 20, missing
        assert "docker pull no-such-image-of-halfstep" in json.dumps(missing), missing
        print("   an image that does not exist: exit 20, with the command")
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True, timeout=120)
        subprocess.run(["docker", "rmi", TAG], check=False, capture_output=True, timeout=120)
        server.close()
