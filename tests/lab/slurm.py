"""A Slurm cluster on this machine, with its own keys, ports and folders. Its nodes have namespaces of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.wait import PATIENCE_S, until

ATTEMPTS = 5
COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
CONFIG = """ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
MailProg=/bin/true
KillWait=2
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_no_slurm() -> str:
    """The reason why no cluster can be started, or "" if one can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in COMMANDS if shutil.which(name, path=path) is None]
    if missing:
        return f"no Slurm on this machine ({', '.join(missing)})"
    return "" if os.getuid() == 0 else "a Slurm cluster of our own needs root"


class Slurm:
    """The three daemons in the foreground under `folder`. Clients need `environment` to find them."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self._folder = folder
        self.nodes = tuple(f"node{number}" for number in range(1, nodes + 1))
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        # It contains sockets, whose paths may have 107 characters. A test's folder under pytest-xdist has a longer
        # path.
        self._spool = tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)

    def start(self) -> Slurm:
        self._folder.mkdir(parents=True)
        (self._folder / "munge.key").write_bytes(os.urandom(128))
        (self._folder / "munge.key").chmod(0o600)
        inside = {f"--{name}": self._folder / f"munge.{name.partition('-')[0]}" for name in MUNGE_FILES}
        self._run(["munged", "--foreground", "--force", *(f"{name}={path}" for name, path in inside.items())])
        until((self._folder / "munge.socket").exists, "munged")
        for _ in range(ATTEMPTS):
            if self._are_nodes_up():
                return self
            self._end(self._daemons[1:])
        raise AssertionError(f"a daemon of Slurm ended in each of {ATTEMPTS} attempts; see {self._folder}")

    def _are_nodes_up(self) -> bool:
        """Start the controller and the nodes. Return False if one ended because another program got its port."""
        shutil.rmtree(self._folder / "state", ignore_errors=True)
        (self._folder / "state").mkdir()
        host, (control, *ports) = socket.gethostname().partition(".")[0], _free_ports(1 + len(self.nodes))
        cpus = len(os.sched_getaffinity(0))
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN"
            for node, port in zip(self.nodes, ports, strict=True)
        )
        text = CONFIG.format(host=host, folder=self._folder, spool=self._spool.name, control=control, nodes=nodes)
        (self._folder / "slurm.conf").write_text(text)
        self._run(["slurmctld", "-D", "-c"])
        for node in self.nodes:
            self._run([*self._machine(node), "slurmd", "-D", "-N", node])
        idle = ["idle"] * len(self.nodes)
        has_ended: list[bool] = []

        def is_decided() -> bool:
            has_ended[:] = [daemon.poll() is not None for daemon in self._daemons]
            return any(has_ended) or self.ask("sinfo", "--noheader", "-N", "--format=%T").split() == idle

        until(is_decided, "nodes")
        return not any(has_ended)

    def _machine(self, node: str) -> tuple[str, ...]:
        """Return a command prefix for a machine of its own: other pids, another boot id and other shared memory."""
        boot = self._folder / f"{node}.boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        mounts = f"mount --bind {boot} /proc/sys/kernel/random/boot_id && mount -t tmpfs -o mode=1777 none /dev/shm"
        namespaces = ("--pid", "--mount", "--ipc", "--fork", "--kill-child", "--mount-proc")
        return ("unshare", *namespaces, "sh", "-c", f'{mounts} && exec "$0" "$@"')

    def _run(self, argv: list[str]) -> None:
        with open(self._folder / f"{len(self._daemons)}.out", "wb") as log:
            environment = {**os.environ, **self.environment, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
            # A separate session, so that Ctrl-C of the test run does not end the daemons before the fixture does.
            daemon = subprocess.Popen(argv, stdout=log, stderr=log, env=environment, start_new_session=True)
            self._daemons.append(daemon)

    def ask(self, *argv: str) -> str:
        """Return the output of one of Slurm's commands."""
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.environment},
            timeout=PATIENCE_S,
        )
        return done.stdout

    def close(self) -> None:
        self._end(self._daemons)
        self._spool.cleanup()

    def _end(self, daemons: list[subprocess.Popen[bytes]]) -> None:
        self._daemons = [daemon for daemon in self._daemons if daemon not in daemons]
        for daemon in reversed(daemons):
            # unshare ignores SIGTERM. The kernel ends its namespace with it.
            daemon.send_signal(signal.SIGKILL if "unshare" in str(daemon.args) else signal.SIGTERM)
            try:
                daemon.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextlib.contextmanager
def slurm_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, nodes: int = 1) -> Iterator[Slurm]:
    """A running cluster that the commands of this process use. Its jobs are cancelled at the end."""
    if reason := why_no_slurm():
        pytest.skip(reason)
    lab = Slurm(folder, nodes)
    monkeypatch.setenv("SLURM_CONF", lab.environment["SLURM_CONF"])
    try:
        yield lab.start()
    finally:
        lab.ask("scancel", "--me")
        lab.close()


MUNGE_FILES = ("key-file", "socket", "pid-file", "log-file", "seed-file")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
