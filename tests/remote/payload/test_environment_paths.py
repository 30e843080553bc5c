"""A config's environment variables take time proportional to their length, and no folder is listed twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remote.link.local import local_host
from remote.payload.fix.audio import MOST_FOLDERS, _names_in
from remote.payload.fix.collator import _find_files_named
from remote.payload.probes.project_python import job_environment
from remote.payload.processes.variables import expand_variables
from tests.contracts.project_modules import ROOT

TEXTS = (
    *("", "plain", "~", "~/a", "$HALF", "${HALF}", "${HALF}x$HALF", "a$HALFb", "$MISSING/${MISSING}", "$", "$$HALF"),
    *("${}", "${HALF", "$HALF}", "${a b}", "${HALF:-x}", "$1", "$EMPTY.", "$NESTED", "~$HALF", "$HÄLF", "{free_port}"),
)


@contextmanager
def listed_folders() -> Iterator[list[str]]:
    """Yield a list to which the path of every folder that this process lists in the block is added."""
    listed: list[str] = []
    active = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and event in ("os.scandir", "os.listdir"):
            listed.append(str(arguments[0]))

    sys.addaudithook(hook)  # hooks cannot be removed
    try:
        yield listed
    finally:
        active = False


@pytest.mark.parametrize("text", TEXTS)
def test_variables_are_expanded_as_by_the_standard_library(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for name, value in (("HALF", "/half"), ("EMPTY", ""), ("NESTED", "$HALF"), ("HOME", "/home/me")):
        monkeypatch.setenv(name, value)
    assert expand_variables({"A": text}) == {"A": os.path.expandvars(os.path.expanduser(text))}


def test_SE_a_long_value_is_expanded_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.path.expandvars copies the rest of the value for each variable: this value would take some ten minutes."""
    monkeypatch.setattr(os.path, "expandvars", None)
    monkeypatch.setenv("HALF", "/half")
    expected = "/half" * 500_000
    assert expand_variables({"A": "$HALF" * 500_000}) == {"A": expected}
    assert job_environment({"A": "$HALF" * 500_000})["A"] == expected


def test_SE_no_module_of_the_payload_expands_variables_otherwise() -> None:
    sources = [path.read_text() for path in (ROOT / "remote/payload").rglob("*.py")]
    assert len(sources) > 100 and not any("expandvars(" in source for source in sources)


@pytest.mark.parametrize("pattern", ["*", "**/*", "[a-z]", "?", "*/../*/../*"])
def test_SE_a_pattern_in_a_library_path_is_the_name_of_a_folder(tmp_path: Path, pattern: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libavutil.so.60").touch()
    with listed_folders() as listed:
        assert list(_names_in([f"{tmp_path}/{pattern}"])) == []
    assert listed == []


def test_SE_a_folder_of_a_library_path_is_listed_once_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libavutil.so.60").touch()
    (tmp_path / "lib/other.so").touch()
    (tmp_path / "link").symlink_to("lib")
    os.mkfifo(tmp_path / "pipe")
    names = ("lib", "lib/", "lib/.", "./lib", "link", "pipe", "missing", "a\0b")
    with listed_folders() as listed:
        found = list(_names_in([f"{tmp_path}/{name}" for name in names * 3]))
    assert found == ["libavutil.so.60"] and listed == [f"{tmp_path}/lib", f"{tmp_path}/pipe"]


def test_SE_a_library_path_of_many_folders_is_cut(tmp_path: Path) -> None:
    for number in range(MOST_FOLDERS + 5):
        (tmp_path / str(number)).mkdir()
    with listed_folders() as listed:
        list(_names_in(f"{tmp_path}/{number}" for number in range(MOST_FOLDERS + 5)))
    assert len(listed) == MOST_FOLDERS


def test_SE_a_pattern_in_the_configured_library_path_matches_no_library(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o700)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/libavutil.so.60").touch()
    host = local_host(str(tmp_path / "work"), keep=False)
    try:
        without = host.ask("fix.audio.look", {"environment": {}})
        for path, known in ((f"{tmp_path}/*", without["ffmpeg"]), (f"{tmp_path}/a", sorted({*without["ffmpeg"], 8}))):
            assert host.ask("fix.audio.look", {"environment": {"LD_LIBRARY_PATH": path}})["ffmpeg"] == known
    finally:
        host.close()


def test_SE_folders_of_a_module_path_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "collator.py").touch()
    with listed_folders() as listed:
        assert list(_find_files_named(str(tmp_path), "collator.py", deep=False)) == [f"{tmp_path}/collator.py"]
        assert list(_find_files_named(str(tmp_path), "missing.py", deep=False)) == []
    assert listed == []
