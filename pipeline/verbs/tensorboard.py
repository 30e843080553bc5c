"""`pipeline tensorboard`: run TensorBoard on the local copies of all runs, and update the copy of one run live."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import UNREACHABLE, OpenRun, open_note
from pipeline.hosts.which_run import judge_others
from pipeline.messages.errors import outcome_of_error
from pipeline.messages.hints import install_command
from pipeline.messages.outcome import Outcome
from pipeline.records.find_run import named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes
from pipeline.show.screen import Screen
from pipeline.verbs.tensorboard_process import LOOPBACK, Viewer, ended, free_port, viewer_running, wait_until_listening
from remote.errors import BadUsage, HalfstepError, Interrupted, ToolFailed
from remote.project.records_folder import close_folders, create_folder, trusted_owners
from remote.protocol.quantities import count, size
from remote.protocol.shell import shell_command
from remote.pull.live import follow_events

RELOAD = 'the page shows new values if you click its reload button, or every 30 s if its setting "Reload data" is on'


def tensorboard(run: str | None = None, port: int = 6006, as_json: bool = False) -> int:
    """Run TensorBoard and print its address. Ctrl-C ends TensorBoard; the job keeps running."""
    screen = Screen(as_json=as_json)
    if importlib.util.find_spec("tensorboard") is None:
        hint = install_command("tensorboard", sys.prefix, sys.executable, shutil.which("uv"))
        raise ToolFailed("TensorBoard is not installed in the environment of halfstep", hint=hint)
    note, records = named_run(run, Path.cwd())
    folder = records.folder_named(note.name)
    create_folder(folder)
    close_folders(records.runs)
    refuse_redirects(records.runs, trusted_owners(records.root))
    port = free_port(port, note.name)
    with viewer_running(records.runs, port) as viewer:
        wait_until_listening(viewer, port, note.name)
        address = f"http://{LOOPBACK}:{port}/"
        screen.note(f"the curves of {count(len(list_notes(records)), 'run')}: {address}")
        screen.note(f"the curves of {note.name} are updated live; {RELOAD}")
        if as_json:
            more = {"address": address, "mirror": str(folder)}
            screen.closing(Outcome("tensorboard", host=note.host, config=note.config, run=note.name, more=more))
        with _end_on_stderr(as_json):
            _keep_live(run, (note, records), screen, viewer)
            viewer.process.wait()
            raise ended(viewer, note.name)


def refuse_redirects(runs: Path, owners: Collection[int]) -> None:
    """Raise BadUsage for a file or folder with which TensorBoard would show files from outside of the runs.

    A cloned project may contain it. TensorBoard follows links, and waits for the writer of a FIFO. A user who is not in
    `owners` could put such a file into an own folder later.
    """
    for folder, folders, files in os.walk(runs):
        for path in (Path(folder, name) for name in (*folders, *files)):
            with contextlib.suppress(FileNotFoundError):  # a concurrent download renames its files
                status = path.lstat()
                reason = _redirect(status.st_mode)
                if status.st_uid not in owners:
                    reason = reason or "belongs to another user"
                if reason:
                    message = f"{path} {reason}, so TensorBoard could show files from outside of the project's runs"
                    raise BadUsage(message, where=str(path), hint=shell_command("rm -r {}", path))


def _redirect(mode: int) -> str:
    """Return the reason for which TensorBoard must not see the file, or ""."""
    if stat.S_ISLNK(mode):
        return "is a symbolic link"
    return "" if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else "is not a regular file"


@contextlib.contextmanager
def _end_on_stderr(as_json: bool) -> Iterator[None]:
    """Report errors on stderr and by the exit code only, because the JSON object of --json was already printed."""
    try:
        yield
    except (HalfstepError, KeyboardInterrupt) as end:
        if not as_json:
            raise
        error = end if isinstance(end, HalfstepError) else Interrupted("interrupted")
        Screen(on_stderr=True).closing(outcome_of_error("tensorboard", error))
        raise SystemExit(int(error.exit_code)) from None


def _keep_live(run: str | None, selected: tuple[RunNote, Records], screen: Screen, viewer: Viewer) -> None:
    """Update the mirror until the job or TensorBoard ends."""
    note, records = selected
    try:
        with open_note(note, records, prompter=None if screen.as_json else screen, keep=False) as opened:
            survey, training = opened.look()
            for other in judge_others("tensorboard", run, note, survey.state, training):
                screen.note(f"{other.message}: {other.hint}")
            for finding in judge_begun(note, survey):
                screen.note(finding.message)
            _mirror(opened, screen, viewer)
    except HalfstepError as error:
        if error.exit_code not in UNREACHABLE:
            raise
        screen.note(f"{note.host} is unreachable ({error.message}): local curves are shown")


def _mirror(opened: OpenRun, screen: Screen, viewer: Viewer) -> None:
    note = opened.note
    received = 0
    for new in follow_events(opened.host, note.project, note.run, opened.folder, retry=announcing_retries(screen)):
        received += len(new.records)
        screen.progress(f"{size(received)} of event files downloaded", received)
        if viewer.process.poll() is not None:
            return
