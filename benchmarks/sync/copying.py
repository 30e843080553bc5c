"""Copy with halfstep and with other tools, each with its own connection."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fabric
import paramiko

from benchmarks.sync.destinations import Destination
from remote.link.reach import open_host
from remote.project.identity import project_of
from remote.project.limits import Limits
from remote.project.scan import scan_project
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.sync.sync import sync_project

LIMITS = Limits(file_bytes=2 * 2**30, total_bytes=4 * 2**30)
ROOT = Path(__file__).parents[2]
SLOW_PLACES = ("scp", "sftp", "fabric")


def ours(place: Destination, root: Path) -> None:
    """Run the first stage of `pipeline run` in this process: scan while connecting, one survey, one stream."""
    host = open_host(place.server.address(workdir=str(place.remote / "halfstep")))
    try:
        with ThreadPoolExecutor(1) as pool:
            scanned = pool.submit(scan_project, root, limits=LIMITS)
            tree = decode(TreeSurvey, host.ask("tree.survey", {"project": project_of(root)}))
            report = sync_project(host, scanned.result(), tree)
        assert report.report.ok, report.report
    finally:
        host.close()


def program(place: Destination, root: Path) -> None:
    """Run `pipeline run --until sync` as a process, as a user does."""
    server, beside = place.server, place.remote / "program"
    beside.mkdir(parents=True, exist_ok=True)
    host, config = beside / "bench-host.yaml", beside / "bench.yaml"
    keys = {
        "host": server.listen,
        "port": server.port,
        "identity_file": server.user_key,
        "known_hosts": server.known_hosts,
        "workdir": place.remote / "halfstep",
        "python": sys.executable,
    }
    host.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    config.write_text("command: [python, pkg0/sub0/module_0.py]\n")
    argv = [sys.executable, "-m", "pipeline", "run", "--host", str(host), "--config", str(config), "--until", "sync"]
    argv += ["--set", f"project={root}"]
    home = {"HOME": str(place.home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    subprocess.run([*argv, "--json"], check=True, cwd=root, env=home, capture_output=True)


def rsync(place: Destination, root: Path, flags: str) -> None:
    destination = place.remote / f"rsync{flags}"
    argv = [
        "rsync",
        flags,
        "--delete",
        "--exclude=.halfstep",
        "-e",
        place.ssh,
        f"{root}/",
        f"{place.server.listen}:{destination}/",
    ]
    subprocess.run(argv, check=True)


def scp(place: Destination, root: Path) -> None:
    server = place.server
    options = place.ssh.split()[3:]
    subprocess.run(
        ["scp", "-q", "-r", "-P", str(server.port), *options, root, f"{server.listen}:{place.remote}/scp"], check=True
    )


def paramiko_put(place: Destination, root: Path) -> None:
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(place.server.known_hosts))
        client.connect(
            place.server.listen, place.server.port, key_filename=str(place.server.user_key), allow_agent=False
        )
        sftp = client.open_sftp()
        put_all(root, place.remote / "sftp", sftp.mkdir, sftp.put)


def fabric_put(place: Destination, root: Path) -> None:
    options = {"key_filename": str(place.server.user_key), "allow_agent": False, "look_for_keys": False}
    with fabric.Connection(place.server.listen, port=place.server.port, connect_kwargs=options) as connection:
        folder = connection.sftp().mkdir
        put_all(root, place.remote / "fabric", folder, connection.put)


def put_all(root: Path, destination: Path, mkdir: Callable[[str], None], put: Callable[[str, str], object]) -> None:
    mkdir(str(destination))
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".halfstep"]
        inside = destination / Path(folder).relative_to(root)
        for name in folders:
            mkdir(str(inside / name))
        for name in names:
            put(str(Path(folder, name)), str(inside / name))
