"""A sync over a bad connection ends with a complete tree and sends no block twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.link.address import Address
from remote.link.agent import AgentHost, Retries
from remote.link.ssh.sockets import Timeouts
from remote.link.ssh.starter import SshStarter
from remote.project.scan import Scan, scan_project
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.sync.stream import Progress
from remote.sync.sync import SyncReport, sync_project
from tests.lab.chaos import ChaosProxy
from tests.lab.injector import Fault
from tests.lab.sshd import Sshd

Chaos = Callable[..., ChaosProxy]
SHORT_TIMEOUTS = Timeouts(connect_s=5.0, keepalive_s=0.4, silence_s=1.6)
FILES, FILE_BYTES = 40, 250_000
TOTAL = FILES * FILE_BYTES
# Bytes that OpenSSH's server buffers, and that a reset discards.
WINDOW = 2 * 2**20


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "speech"
    root.mkdir()
    for number in range(FILES):
        (root / f"f{number}.bin").write_bytes(random.Random(number).randbytes(FILE_BYTES))
    return root


def reach(address: Address) -> AgentHost:
    starter = SshStarter(address, timeouts=SHORT_TIMEOUTS)
    return AgentHost(address.name, starter, workdir=address.workdir, retries=Retries(tries=5, first_wait_s=0.05))


def sync(host: AgentHost, scan: Scan, progress: Progress | None = None) -> SyncReport:
    tree = decode(TreeSurvey, host.ask("tree.survey", {"project": scan.project}))
    return sync_project(host, scan, tree, wait=lambda seconds: None, progress=progress)


def check(host: AgentHost, server: Sshd, project: Path, scan: Scan) -> None:
    """Both trees are equal, byte for byte, and a second sync sends nothing."""
    tree = server.home / "halfstep/projects" / scan.project / "tree"
    assert {path.name: path.read_bytes() for path in tree.iterdir()} == {
        path.name: path.read_bytes() for path in project.iterdir() if path.is_file()
    }
    assert sync(host, scan).wire_bytes == 0
    host.close()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_FI_01_a_sync_resumes_after_a_connection_reset(sshd: Sshd, chaos: Chaos, project: Path, share: float) -> None:
    reach(sshd.address()).ask("file.list", {"path": "."})
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.RESET, direction="up", after=int(10_000 + share * TOTAL))
    host, scan = reach(sshd.through(proxy.port)), scan_project(project)
    totals: list[int] = []
    report = sync(host, scan, lambda done, total: totals.append(total))
    assert report.report.ok and report.retries == 1
    # Bytes that were not on the host's disk: those in flight, and those of the incomplete file.
    assert totals[0] == TOTAL and totals[-1] <= TOTAL * (1 - share) + WINDOW + 2 * FILE_BYTES
    check(host, sshd, project, scan)


def test_FI_02_a_silent_connection_is_detected_during_a_sync_and_the_rest_is_sent(
    sshd: Sshd, chaos: Chaos, project: Path
) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.BLACK_HOLE, direction="up", after=1_500_000)
    host, scan = reach(sshd.through(proxy.port)), scan_project(project)
    report = sync(host, scan)
    assert report.report.ok and report.retries >= 1
    check(host, sshd, project, scan)


def test_FI_07_a_flipped_bit_during_a_sync_changes_no_file(sshd: Sshd, chaos: Chaos, project: Path) -> None:
    proxy = chaos(("127.0.0.1", sshd.port))
    proxy.injector.plan(Fault.FLIP, direction="up", after=1_500_000)
    host, scan = reach(sshd.through(proxy.port)), scan_project(project)
    report = sync(host, scan)
    assert report.report.ok and report.retries >= 1
    check(host, sshd, project, scan)


def test_FI_14_a_sync_completes_over_a_connection_with_latency_and_stalls(
    sshd: Sshd, chaos: Chaos, project: Path
) -> None:
    proxy = chaos(("127.0.0.1", sshd.port), delay_s=0.2)
    for number in range(4):
        proxy.injector.plan(Fault.STALL, direction="up", after=500_000 * (number + 1), seconds=0.5)
    host, scan = reach(sshd.through(proxy.port)), scan_project(project)
    report = sync(host, scan)
    assert report.report.ok and report.retries == 0
    check(host, sshd, project, scan)
