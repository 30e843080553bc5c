"""The mark of a folder that a fixer creates, when its creation is killed."""

from remote.payload.fix.marks import MARK, begin_marked, discard, read_mark
from tests.faults.kill_points import kill_at, kill_points, run_traced

MARKED = """
import sys
from remote.payload.fix.marks import begin_marked, discard
discard(sys.argv[1])
begin_marked(sys.argv[1], {"state": "unfinished", "recipe": "new"})
"""


def test_killed_at_any_change_the_folder_has_a_mark_or_does_not_exist(tmp_path):
    def old(name):
        folder = tmp_path / name / "venv"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").write_text("python")
        (folder / MARK).write_text('{"state": "unfinished", "recipe": "old"}')
        return folder

    log, seen = tmp_path / "calls", set()
    counted = old("counted")
    assert run_traced(MARKED, (str(counted),), log).returncode == 0
    assert read_mark(str(counted))["recipe"] == "new"
    kills = [kill_point for kill_point in kill_points(log, counted.parent) if kill_point[0] != "openat"]
    assert len(kills) >= 8
    for number, kill_point in enumerate(kills):
        folder = old(f"killed-{number}")
        assert run_traced(MARKED, (str(folder),), log, kill_at(kill_point)).returncode != 0, kill_point
        assert not folder.exists() or read_mark(str(folder)), kill_point
        seen.add(read_mark(str(folder)).get("recipe", ""))
        discard(str(folder))
        begin_marked(str(folder), {"state": "unfinished", "recipe": "again"})
        assert [path.name for path in folder.parent.iterdir()] == ["venv"], "nothing is left beside it"
    assert {"", "old"} <= seen
