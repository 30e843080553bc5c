"""Pull a run's TensorBoard files with one request. Only complete records are copied; local files are only extended."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from remote.host import Host
from remote.protocol.events import MARK, ROOTS
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import EventFile
from remote.protocol.layout import ProjectLayout
from remote.protocol.records import LENGTH, OVERHEAD
from remote.pull.folder import Folder
from remote.pull.mirror import Mirror
from remote.pull.names import JudgedNames, judge_names
from remote.pull.report import PulledFile, PulledState, PullReport
from remote.pull.transfer import Transfer, judge_row


def pull_events(host: Host, project_key: str, run: str, files: Iterable[EventFile], destination: Path) -> PullReport:
    """Copy the complete records of every event file that the host offers to `destination`.

    Files with an unsafe name and files that cannot be read are skipped, with a reason. Raises DiskFull, Busy,
    PullRefused (for more than 10,000 files or a malformed answer) and the host's errors.
    """
    offered = {file.name: file for file in files}
    names = judge_event_names(offered)
    refused = [PulledFile(name, destination, PulledState.REFUSED, reason=reason) for name, reason in names.refused]
    if not names.accepted:
        return PullReport(tuple(refused))
    with Folder(destination) as folder:
        transfer = Transfer(folder, Mirror(folder))
        transfer.prepare(names.accepted)
        wants = []
        for want in transfer.wants:
            file = offered[want[0]]
            if _same(folder, transfer.mirror.local(file.name), file):
                transfer.states[file.name] = judge_row({"ending": file.ending}, file.size_bytes)
            else:
                wants.append(want)
        if wants:
            args = {"run": ProjectLayout(project_key).run(run).root, "wants": wants}
            try:
                answer = transfer.fetch(host, "events.read", args, wants)
            finally:
                folder.sync()
            transfer.judge(wants, answer)
        return PullReport((*(transfer.result(name) for name in names.accepted), *refused))


def check_mirror(files: Iterable[EventFile], destination: Path) -> Report:
    """Report each event file whose local copy is incomplete, by comparing sizes and first records with the survey."""
    offered = {file.name: file for file in files}
    names = judge_event_names(offered)
    if not destination.is_dir():
        missing = [name for name in names.accepted if offered[name].size_bytes]
    else:
        with Folder(destination) as folder:
            mirror = Mirror(folder)
            missing = [name for name in names.accepted if not _same(folder, mirror.newest(name), offered[name])]
    return Report(
        tuple(
            Finding(
                "logs-incomplete",
                Severity.ERROR,
                f"the local copy of {name} is incomplete",
                where=str(destination / name),
            )
            for name in missing
        )
    )


def judge_event_names(names: Iterable[str]) -> JudgedNames:
    """Divide the names of event files into safe and refused names."""
    listed = list(names)
    judged = judge_names(name for name in listed if is_offered_name(name))
    other_files = tuple((name, "not the name of an event file") for name in listed if not is_offered_name(name))
    return JudgedNames(judged.accepted, judged.refused + other_files)


def is_offered_name(name: str) -> bool:
    """Return True if a host may offer an event file with this name.

    The file must be below one of ROOTS, because the run's local folder also contains halfstep's own files.
    """
    return is_event_name(name) and name.partition("/")[0] in ROOTS


def is_event_name(name: str) -> bool:
    """Return True if TensorBoard would read a file with this name."""
    return MARK in name.rpartition("/")[2]


def _same(folder: Folder, local: str, file: EventFile) -> bool:
    """Return True if the local file has the size and the first record that the host reported."""
    with folder.reading(local) as fd:
        if fd is None:
            return file.size_bytes == 0
        if os.fstat(fd).st_size != file.size_bytes or file.size_bytes < OVERHEAD:
            return False
        (length,) = LENGTH.unpack(os.pread(fd, LENGTH.size, 0))
        return hashlib.sha256(os.pread(fd, min(OVERHEAD + length, file.size_bytes), 0)).hexdigest() == file.head_sha256
