"""The page of the real TensorBoard, in Chromium, shows every run of the project by its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from remote.payload.output.event_writer import EventWriter
from tests.contracts.project_modules import ROOT
from tests.lab.browser import open_browser, why_no_browser
from tests.lab.sshd import nobody_listens

NO_BROWSER = why_no_browser()
pytestmark = pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER)


def write_run(records: Records, name: str, port: int, loss: float) -> None:
    write_note(records, RunNote(name, "titan", "tiny", "key", 1.0, {"host": "127.0.0.1", "port": port}))
    writer = EventWriter(str(records.folder_named(name) / "tensorboard"))
    for step in range(5):
        writer.add(step, {"train/loss": loss / (step + 1)}, 1000.0 + step)


def test_all_runs_are_shown_by_name_and_the_terminal_says_how_the_page_reloads(tmp_path: Path) -> None:
    with nobody_listens() as port:
        for name, loss in (("tiny-0000aaaa", 3.0), ("tiny-1111bbbb", 2.0)):
            write_run(Records(tmp_path), name, port, loss)
        verb = subprocess.Popen(
            [sys.executable, "-P", "-m", "pipeline", "tensorboard", "--port", "0"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert verb.stdout
        try:
            words, _, address = verb.stdout.readline().strip().rpartition(" ")
            assert words == "the curves of 2 runs:"
            assert "Reload data" in verb.stdout.readline()
            with open_browser(tmp_path / "profile") as browser:
                browser.open(address, width=1400)
                for name in ("tiny-0000aaaa/tensorboard", "tiny-1111bbbb/tensorboard"):
                    browser.wait(f"document.body.innerText.includes({name!r})")
                browser.wait("document.body.innerText.includes('loss')")
        finally:
            verb.send_signal(signal.SIGINT)
            verb.wait(30)
