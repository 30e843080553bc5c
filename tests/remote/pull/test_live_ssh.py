"""Following over a real SSH server whose sessions are killed."""

from __future__ import annotations

import threading

import pytest

from remote.link.reach import open_host
from remote.protocol.layout import ProjectLayout
from remote.pull.live import follow_events
from remote.pull.log import follow_log
from remote.pull.reconnect import RetryPolicy
from tests.lab.records import pack_record
from tests.lab.wait import until

RECORDS = [pack_record(bytes([n]) * 90) for n in range(1, 41)]


@pytest.mark.ssh
def test_FI_59_sessions_killed_again_and_again_lose_and_repeat_no_byte(sshd, tmp_path):
    work = tmp_path / "work"
    run = work / ProjectLayout("p").run("r").root
    (run / "tensorboard").mkdir(parents=True)
    (run / "jobs" / "1").mkdir(parents=True)
    events = run / "tensorboard" / "events.out.tfevents.1"
    log = run / "jobs" / "1" / "output.log"
    events.write_bytes(b"")
    log.write_bytes(b"")
    seen: list[bytes] = []
    lines: list[bytes] = []
    lost: list[str] = []
    retry = RetryPolicy(first_s=0.01, on_lost=lambda error, wait_s: lost.append(error.message))

    def write() -> None:
        for number, record in enumerate(RECORDS, start=1):
            with events.open("ab") as file:
                file.write(record)
            with log.open("ab") as file:
                file.write(b"step %d\n" % number)
            until(lambda number=number: len(b"".join(seen)) == number * len(RECORDS[0]))
            until(lambda number=number: b"".join(lines).endswith(b"step %d\n" % number))
            if number % 10 == 0:
                before = len(lost)
                sshd.kill_sessions()
                until(lambda before=before: len(lost) > before)
        (run / "jobs" / "1" / "result.json").write_text("{}")

    def read_lines() -> None:
        with_host = open_host(sshd.address(workdir=str(work)))
        try:
            for piece in follow_log(with_host, "p", "r", job=1, retry=retry):
                lines.append(piece)
        finally:
            with_host.close()

    writer, reader = threading.Thread(target=write), threading.Thread(target=read_lines)
    host = open_host(sshd.address(workdir=str(work)))
    writer.start()
    reader.start()
    try:
        for new in follow_events(host, "p", "r", tmp_path / "mirror", job=1, retry=retry):
            seen.append(new.records)
    finally:
        host.close()
    reader.join()
    writer.join()
    assert len(lost) >= 4
    assert b"".join(seen) == b"".join(RECORDS)
    assert (tmp_path / "mirror" / "tensorboard" / events.name).read_bytes() == events.read_bytes()
    assert b"".join(lines) == log.read_bytes()
