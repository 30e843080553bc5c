"""What a sync and a job leave on the host can be read by their user only."""

import os
import shutil
import stat

import pytest


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000], ids=oct)
def test_SE_10_a_synced_project_lies_in_a_folder_of_mode_0700_whatever_the_workdir_allows(bench, umask):
    shutil.rmtree(bench.workdir / "payload")
    bench.workdir.chmod(0o755)
    before = os.umask(umask)
    try:
        bench.sync()
    finally:
        os.umask(before)
    assert mode(bench.workdir) == 0o755
    assert mode(bench.home) == 0o700
    assert (bench.home / "tree" / "src" / "model.py").is_file()


def test_SE_10_the_open_folder_of_an_earlier_version_is_restricted_by_the_next_sync(bench):
    bench.sync()
    bench.home.chmod(0o755)
    bench.write({"later.py": "x = 1\n"})
    bench.sync()
    assert mode(bench.home) == 0o700
