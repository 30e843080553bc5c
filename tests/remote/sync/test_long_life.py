"""Random sequences of syncs, fixes and edits on both machines: no edit is lost, and all orders end the same."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from remote.errors import Busy
from remote.link.agent import AgentHost
from remote.link.streams import LocalStarter
from remote.payload.operations import OPERATIONS
from remote.payload.request.call import Call
from remote.project.scan import scan_project
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.sync.rewrite import Rewrite, rewrite_tree
from remote.sync.sync import sync_project
from tests.remote.sync.sync_bench import contents

NAMES = ("a.py", "b.py", "src/a.py", "src/deep/b.py", "c", "c/d.py", "notes")
DATA = st.sampled_from([b"", b"one\n", b"two\n", b"three\n" * 50])


class DirectHost:
    """Calls the operations directly, without a process and a connection, to be fast."""

    name = "direct"

    def __init__(self, workdir: Path) -> None:
        self.workdir = str(workdir)

    def _call(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes] = (), sink: Any = None) -> Any:
        class Direct(Call):
            def chunks(self):
                yield from chunks

            def send(self, data):
                sink(data)

        return OPERATIONS[op].handler(Direct(op, dict(args), self.workdir, "", None))

    def ask(self, op, args=None, **_):
        return self._call(op, args or {})

    act = ask

    @property
    def in_flight(self):
        return 0

    def send(self, op, args, chunks, **_):
        return self._call(op, args, chunks)

    def fetch(self, op, args, sink: Callable[[bytes], None], **_):
        return self._call(op, args, sink=sink)

    def close(self) -> None: ...


class Lives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lives-"))
        self.root, self.host = self.folder / "speech", DirectHost(self.folder / "workdir")
        self.root.mkdir()
        self.edits: dict[str, bytes] = {}
        self.agreed = False

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @property
    def home(self) -> Path:
        return Path(self.host.workdir) / "projects" / scan_project(self.root).project

    def look(self):
        scan = scan_project(self.root)
        return scan, decode(TreeSurvey, self.host.ask("tree.survey", {"project": scan.project}))

    @rule(name=st.sampled_from(NAMES), data=DATA)
    def write_here(self, name: str, data: bytes) -> None:
        path = self.root / name
        if any(parent.is_file() for parent in path.parents) or path.is_dir():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.agreed = False

    @rule(name=st.sampled_from(NAMES))
    def delete_here(self, name: str) -> None:
        path = self.root / name
        if path.is_file():
            path.unlink()
            if path.parent != self.root and not any(path.parent.iterdir()):
                path.parent.rmdir()
            self.agreed = False

    @rule(name=st.sampled_from(NAMES))
    def flip_mode_here(self, name: str) -> None:
        path = self.root / name
        if path.is_file():
            path.chmod(path.stat().st_mode ^ 0o100)
            self.agreed = False

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 10**6))
    def edit_there(self, name: str, number: int) -> None:
        path = self.home / "tree" / name
        if path.is_file():
            self.edits[name] = f"mine {number}\n".encode()
            path.write_bytes(self.edits[name])
            self.agreed = False

    @rule(name=st.sampled_from(NAMES))
    def lose_there(self, name: str) -> None:
        path = self.home / "tree" / name
        if path.is_file() and name not in self.edits:
            path.unlink()
            self.agreed = False

    @rule(name=st.sampled_from(NAMES))
    def fix_there(self, name: str) -> None:
        scan, _ = self.look()
        row = scan.manifest.rows.get(name)
        if row is None or not self.agreed:
            return
        rewrite_tree(self.host, scan, [Rewrite(name, row.source, b"fixed " + scan.read(name), {"fix": 1})])
        assert (self.home / "tree" / name).read_bytes() == b"fixed " + scan.read(name)

    @rule(force=st.booleans(), forget=st.booleans())
    def sync(self, force: bool, forget: bool) -> None:
        if forget:
            shutil.rmtree(self.root / ".halfstep", ignore_errors=True)
        scan, tree = self.look()
        report = sync_project(self.host, scan, tree, force=force)
        if force:
            assert report.report.ok
        if report.report.ok:
            fixed = {
                path: f"{row.installed} {'x' if row.mode & 0o100 else '-'}" for path, row in report.tree.fixed.items()
            }
            found = contents(self.home / "tree")
            assert {path: found.get(path) for path in contents(self.root)} == {**contents(self.root), **fixed}
            assert set(found) - set(contents(self.root)) <= set(self.edits)
            again = sync_project(self.host, *self.look())
            assert not again.sent and not again.deleted and again.wire_bytes == 0
            self.agreed = True

    @invariant()
    def no_edit_is_lost(self) -> None:
        if not hasattr(self, "folder"):
            return
        kept = [path.read_bytes() for path in self.home.glob("undo/edited-*/**/*") if path.is_file()]
        for name, data in self.edits.items():
            path = self.home / "tree" / name
            assert (path.is_file() and path.read_bytes() == data) or data in kept, name


Lives.TestCase.settings = settings(
    max_examples=400 if os.environ.get("HALFSTEP_FULL") else 40, stateful_step_count=14, deadline=None
)
TestLives = Lives.TestCase


def test_FI_22_two_laptops_at_once_leave_the_tree_of_one_of_them(tmp_path):
    roots = []
    for number in range(2):
        root = tmp_path / f"laptop{number}" / "speech"
        root.mkdir(parents=True)
        for name in range(60):
            (root / f"f{name}.py").write_text(f"laptop {number} {name}\n" * 50)
        roots.append(root)
    ended: list[str] = []

    def go(root: Path) -> None:
        scan = scan_project(root, project="shared-1", owner="both")
        host = AgentHost("box", LocalStarter(), workdir=str(tmp_path / "workdir"))
        for _ in range(5):
            tree = decode(TreeSurvey, host.ask("tree.survey", {"project": "shared-1"}))
            try:
                report = sync_project(host, scan, tree, wait=time.sleep)
                ended.append("sent" if report.sent else "same" if report.report.ok else "told")
            except Busy as busy:
                assert busy.exit_code == 60
                ended.append("busy")
        host.close()

    threads = [threading.Thread(target=go, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 10 and "sent" in ended
    assert contents(tmp_path / "workdir/projects/shared-1/tree") in [contents(root) for root in roots]
