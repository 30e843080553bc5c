"""A sync is complete, sends each file once, and never overwrites edits on the host."""

from __future__ import annotations

import json
import os

import pytest

from remote.errors import Busy, RemoteFault, SyncRefused
from remote.payload.files.lock import take_lock
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from remote.sync.sync import sync_project
from tests.lab.payload import install_payload
from tests.remote.sync.sync_bench import contents


def asked(host, monkeypatch) -> list[str]:
    """Return a list to which the operations called from now on are appended."""
    ops = []
    for name in ("ask", "act", "send", "fetch"):
        real = getattr(host, name)

        def call(op, *args, real=real, **options):
            ops.append(op)
            return real(op, *args, **options)

        monkeypatch.setattr(host, name, call)
    return ops


def test_the_remote_tree_equals_the_local_tree(bench):
    report = bench.sync()
    assert contents(bench.tree) == contents(bench.root)
    assert report.report.ok and set(report.sent) == set(contents(bench.root))
    assert report.tree == bench.survey() and not report.tree.deviations
    assert {path.name for path in bench.home.iterdir()} == {"tree", "sync.json", "stats.json", "owner.json", "lock"}


def test_a_sync_without_changes_makes_no_request(bench, monkeypatch):
    bench.sync()
    scan, tree = bench.scan(), bench.survey()
    ops = asked(bench.host, monkeypatch)
    report = sync_project(bench.host, scan, tree)
    assert (ops, report.sent, report.wire_bytes) == ([], (), 0)


def test_one_changed_file_costs_one_request_and_only_its_bytes(bench, monkeypatch):
    bench.sync()
    bench.write({"src/model.py": "dtype = 'float16'\n", "new.py": "x = 1\n"})
    (bench.root / "configs/run.yaml").unlink()
    scan, tree = bench.scan(), bench.survey()
    ops = asked(bench.host, monkeypatch)
    report = sync_project(bench.host, scan, tree)
    assert ops == ["tree.receive"]
    assert (set(report.sent), report.deleted) == ({"src/model.py", "new.py"}, ("configs/run.yaml",))
    assert report.wire_bytes < 1000
    assert contents(bench.tree) == contents(bench.root) and not (bench.tree / "configs").exists()


def test_without_a_record_of_the_last_sync_one_more_request_is_sent(bench, monkeypatch):
    bench.sync()
    bench.write({"src/model.py": "dtype = 'float16'\n"})
    for path in (bench.root / ".halfstep/agreed").iterdir():
        path.unlink()
    scan, tree = bench.scan(), bench.survey()
    ops = asked(bench.host, monkeypatch)
    assert sync_project(bench.host, scan, tree).sent == ("src/model.py",)
    assert ops == ["tree.manifest", "tree.receive"]


def test_an_outdated_survey_is_detected_and_repeated(bench):
    bench.sync()
    tree = bench.survey()
    bench.write({"src/model.py": "dtype = 'float16'\n"})
    bench.sync()
    bench.write({"src/model.py": "dtype = 'float32'\n"})
    report = sync_project(bench.host, bench.scan(), tree)
    assert report.sent == ("src/model.py",) and contents(bench.tree) == contents(bench.root)


def test_modes_links_and_unusual_names_are_synced(bench):
    bench.write({"it's; rm -rf $HOME.py": "1", "-rf": "2", "new\nline": "3", "n" * 255: "4"})
    with open(os.path.join(os.fsencode(bench.root), b"\xff\xfe.py"), "wb") as file:
        file.write(b"5")
    os.symlink("src/model.py", bench.root / "model.py")
    os.symlink("src", bench.root / "lib")
    bench.sync()
    assert contents(bench.tree) == contents(bench.root)
    (bench.root / "src/model.py").chmod(0o755)
    os.unlink(bench.root / "lib")
    os.symlink("configs", bench.root / "lib")
    report = bench.sync()
    assert set(report.sent) == {"src/model.py", "lib"} and report.sent_bytes == 0
    assert contents(bench.tree) == contents(bench.root)


def test_a_file_becomes_a_folder_and_a_folder_a_file(bench):
    bench.sync()
    (bench.root / "train.py").unlink()
    bench.write({"train.py/inner.py": "x"})
    for path in sorted((bench.root / "src/data").iterdir()):
        path.unlink()
    (bench.root / "src/data").rmdir()
    bench.write({"src/data": "now a file"})
    assert bench.sync().report.ok
    assert contents(bench.tree) == contents(bench.root)


def test_an_edit_on_the_host_is_reported_and_kept_while_the_rest_is_sent(bench):
    bench.sync()
    (bench.tree / "src/model.py").write_text("dtype = 'mine'\n")
    (bench.tree / "configs/run.yaml").write_text("lr: 1\n")
    bench.write({"configs/run.yaml": "lr: 2\n", "train.py": "changed\n"})
    report = bench.sync()
    assert {(f.check, f.where, f.exit_code) for f in report.report.errors} == {
        ("edited-on-host", "src/model.py", ExitCode.SYNC),
        ("edited-on-host", "configs/run.yaml", ExitCode.SYNC),
    }
    assert report.sent == ("train.py",)
    assert (bench.tree / "src/model.py").read_text() == "dtype = 'mine'\n"
    assert (bench.tree / "configs/run.yaml").read_text() == "lr: 1\n"
    assert {d.path for d in bench.survey().deviations} == {"src/model.py", "configs/run.yaml"}


def test_force_overwrites_an_edit_and_keeps_it(bench):
    bench.sync()
    (bench.tree / "src/model.py").write_text("dtype = 'mine'\n")
    report = bench.sync(force=True)
    assert contents(bench.tree) == contents(bench.root) and report.report.ok
    assert (bench.workdir / report.kept_in / "src/model.py").read_text() == "dtype = 'mine'\n"


def test_an_edit_after_the_survey_is_not_overwritten_either(bench):
    bench.sync()
    tree = bench.survey()
    (bench.tree / "src/model.py").write_text("dtype = 'mine'\n")
    bench.write({"src/model.py": "dtype = 'float16'\n", "train.py": "changed\n"})
    report = sync_project(bench.host, bench.scan(), tree)
    assert [finding.where for finding in report.report.errors] == ["src/model.py"]
    assert (bench.tree / "src/model.py").read_text() == "dtype = 'mine'\n"
    assert report.sent == ("train.py",) and (bench.tree / "train.py").read_text() == "changed\n"


def test_an_unknown_file_is_not_overwritten_and_an_equal_one_is_adopted(bench):
    bench.tree.mkdir(parents=True)
    (bench.tree / "train.py").write_text("a stranger's\n")
    (bench.tree / "configs").mkdir()
    (bench.tree / "configs/run.yaml").write_bytes((bench.root / "configs/run.yaml").read_bytes())
    (bench.tree / "notes.txt").write_text("theirs")
    report = bench.sync()
    assert [finding.where for finding in report.report.errors] == ["train.py"]
    assert (bench.tree / "train.py").read_text() == "a stranger's\n" and (bench.tree / "notes.txt").exists()


@pytest.mark.parametrize("stands", ["file", "link", "folder"])
def test_an_obstacle_on_the_host_is_reported_and_not_written_through(bench, tmp_path, stands):
    bench.tree.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    if stands == "file":
        (bench.tree / "src").write_text("a file")
    elif stands == "link":
        os.symlink(tmp_path / "elsewhere", bench.tree / "src")
    else:
        (bench.tree / "train.py").mkdir()
        (bench.tree / "train.py/theirs").write_text("x")
    report = bench.sync()
    places = {finding.where for finding in report.report.errors}
    assert places >= ({"train.py"} if stands == "folder" else {"src", "src/model.py"})
    assert not list((tmp_path / "elsewhere").iterdir())
    assert bench.sync(force=True).report.ok
    assert contents(bench.tree) == contents(bench.root)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_missing_on_the_host_is_sent_again(bench):
    bench.sync()
    (bench.tree / "src/model.py").unlink()
    assert [d.kind for d in bench.survey().deviations] == ["missing"]
    assert bench.sync().sent == ("src/model.py",)
    assert contents(bench.tree) == contents(bench.root)


def test_an_edit_on_the_host_with_the_same_size_and_mtime_is_detected(bench):
    bench.sync()
    path = bench.tree / "configs/run.yaml"
    times = path.stat()
    path.write_text("lr: 9.0e-5\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [(d.path, d.kind) for d in bench.survey().deviations] == [("configs/run.yaml", "edited")]


def test_bytes_lost_in_a_crash_of_the_machine_are_sent_again_without_force(bench):
    """After a power cut, a file can be empty with unchanged times; this is not an edit."""
    bench.sync()
    path = bench.tree / "src/model.py"
    times = path.stat()
    path.write_bytes(b"")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    stats = json.loads((bench.home / "stats.json").read_text())
    (bench.home / "stats.json").write_text(json.dumps({**stats, "boot": "the one before"}))
    assert [(d.path, d.kind) for d in bench.survey().deviations] == [("src/model.py", "damaged")]
    assert bench.sync().sent == ("src/model.py",) and contents(bench.tree) == contents(bench.root)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version":1}', b'{"version":1,"rows":{"a":[1]}}', b"[]"])
def test_a_damaged_manifest_is_rebuilt_from_the_remote_files(bench, damage):
    bench.sync()
    (bench.home / "sync.json").write_bytes(damage)
    assert not bench.survey().files
    assert bench.sync().report.ok
    assert contents(bench.tree) == contents(bench.root) and bench.survey().files == len(contents(bench.root))


def test_a_manifest_of_a_newer_version_is_left_alone(bench):
    bench.sync()
    newer = b'{"version":2,"rows":{}}'
    (bench.home / "sync.json").write_bytes(newer)
    with pytest.raises(RemoteFault, match="newer than 1") as refused:
        bench.sync()
    assert refused.value.exit_code == ExitCode.USAGE
    assert (bench.home / "sync.json").read_bytes() == newer


def test_a_sync_deletes_most_of_the_tree_only_if_forced(bench):
    bench.write({f"m{number}.py": f"{number}" for number in range(30)})
    bench.sync()
    for number in range(30):
        (bench.root / f"m{number}.py").unlink()
    report = bench.sync()
    assert [finding.check for finding in report.report.errors] == ["mass-delete"] and (bench.tree / "m1.py").exists()
    assert len(bench.sync(force=True).deleted) == 30
    assert contents(bench.tree) == contents(bench.root)


def test_the_host_deletes_files_that_are_sent_separately_from_now_on(bench):
    bench.write({f"data/{number}.wav": f"{number}" for number in range(30)})
    bench.write({"train.py": "x = 1\n"})
    bench.sync()
    scan = scan_project(bench.root, data_link="data")
    report = sync_project(bench.host, scan, bench.survey())
    assert report.report.ok and len(report.deleted) == 30
    assert "train.py" in contents(bench.tree) and not any(path.startswith("data") for path in contents(bench.tree))


def test_a_refused_project_sends_nothing(bench):
    os.mkfifo(bench.root / "pipe")
    report = bench.sync()
    assert [finding.check for finding in report.report.errors] == ["not-regular"] and not bench.tree.exists()


def test_FI_22_the_second_of_two_simultaneous_syncs_fails_at_once(bench):
    """The second sync fails with the name of the lock's holder and changes nothing."""
    bench.home.mkdir(parents=True)
    with take_lock(str(bench.home / "lock"), "another laptop"), pytest.raises(Busy, match="another laptop") as busy:
        bench.sync()
    assert busy.value.exit_code == ExitCode.BUSY and not bench.tree.exists()
    assert bench.sync().report.ok and contents(bench.tree) == contents(bench.root)


def test_FI_23_a_project_of_another_laptop_is_not_taken_over(bench):
    bench.sync()
    other = scan_project(bench.root, project=bench.scan().project, owner="you@elsewhere:/p")
    bench.write({"train.py": "theirs\n"})
    other = scan_project(bench.root, project=other.project, owner=other.owner)
    with pytest.raises(SyncRefused, match="belongs to") as refused:
        sync_project(bench.host, other, bench.survey())
    assert "you@elsewhere:/p" in refused.value.message and refused.value.exit_code == ExitCode.SYNC
    assert (bench.tree / "train.py").read_text() != "theirs\n"
    assert sync_project(bench.host, other, bench.survey(), force=True).report.ok
    assert bench.survey().owner == "you@elsewhere:/p"


@pytest.mark.parametrize("name", ["with space", 'quo"te', "it's", "$HOME", "~other", "new\nline", "-rf", "`id`"])
def test_BI_47_a_workdir_of_any_name_works(bench, tmp_path, name):
    bench.workdir = install_payload(tmp_path / name)
    assert bench.sync().report.ok
    assert contents(bench.tree) == contents(bench.root)


def test_the_local_project_is_untouched_outside_its_halfstep(bench):
    before = contents(bench.root)
    bench.sync()
    bench.sync(force=True)
    assert contents(bench.root) == before
