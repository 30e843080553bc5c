"""Which files belong to data, and the digest that identifies it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from remote.errors import SyncRefused
from remote.project.data import outside_of, scan_data
from remote.protocol.exits import ExitCode
from tests.remote.corpus import data

__all__ = ["data"]


def test_the_digest_is_of_names_and_bytes_alone(data, tmp_path):
    first = scan_data(data).digest
    os.utime(data / "index.json", (1, 1))
    assert scan_data(data, tmp_path / "memory").digest == first == scan_data(data, tmp_path / "memory").digest
    (data / "index.json").rename(data / "other.json")
    assert scan_data(data).digest != first


def test_what_cannot_be_read_is_named(tmp_path, data):
    with pytest.raises(SyncRefused, match="does not exist"):
        scan_data(tmp_path / "nothing")
    os.mkfifo(data / "pipe")
    with pytest.raises(SyncRefused, match="pipe") as refused:
        scan_data(data)
    assert refused.value.exit_code == ExitCode.SYNC


def test_links_are_followed_once(tmp_path, data):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.wav").write_bytes(b"x")
    os.symlink(elsewhere, data / "more")
    os.symlink(data, data / "self")
    assert set(scan_data(data).files) == {"index.json", *(f"wavs/{n}.wav" for n in range(4)), "more/x.wav"}


def test_secrets_beside_the_data_stay_on_the_laptop(data):
    (data / ".env").write_text("A=1")
    scan = scan_data(data)
    assert ".env" not in scan.files and [finding.where for finding in scan.report.findings] == [".env"]


CREDENTIALS = """[remote "origin"]
    url = https://x-access-token:%s@hub.example/me/private.git
[http "https://hub.example/"]
    extraheader = AUTHORIZATION: basic %s
"""


@pytest.mark.parametrize("case", [".git", ".GIT"])
def test_SE_credentials_of_the_clone_are_not_sent_through_a_link(data, case):
    (data.parent / case).mkdir()
    (data.parent / case / "config").write_text("[core]\n")
    (data / "notes.txt").symlink_to(f"../{case}/config")
    (data / "more").symlink_to(f"../{case}")
    scan = scan_data(data)
    assert {name.partition("/")[0] for name in scan.files} == {"index.json", "wavs"}
    assert [finding.where for finding in scan.report.findings] == ["more/config", "notes.txt"]


@pytest.mark.parametrize("root", [".git", "linked", ".git/config"])
def test_SE_a_git_folder_is_not_data(tmp_path, root):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("[core]\n")
    (tmp_path / "linked").symlink_to(".git")
    with pytest.raises(SyncRefused, match="credentials"):
        scan_data(tmp_path / root)


def test_files_that_git_annex_manages_are_data(data):
    objects = data.parent / ".git/annex/objects/1/2/KEY"
    objects.mkdir(parents=True)
    (objects / "KEY").write_bytes(b"RIFF")
    (data / "annexed.wav").symlink_to("../.git/annex/objects/1/2/KEY/KEY")
    assert "annexed.wav" in scan_data(data).files


@pytest.mark.parametrize("line", [2, 4])
def test_SE_a_copy_of_gits_settings_with_credentials_is_not_sent(data, line):
    text = CREDENTIALS % ("ghp_" + "Ab3dE6gH" * 5, "eC1hY2Nlc3MtdG9rZW46Z2hwX0FiM2RFNmdIQWIzZEU2Z0g=")
    (data / "settings").write_text("\n".join(text.splitlines()[line - 2 : line]))
    assert "settings" not in scan_data(data).files


def test_addresses_and_headers_without_a_secret_are_sent(data):
    text = "https://ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx@hub.example\ngit@hub.example:me/x.git\n"
    (data / "readme.md").write_text(text + "Authorization: Bearer ${TOKEN}\nAuthorization: Bearer <your token>\n")
    assert "readme.md" in scan_data(data).files


@pytest.mark.parametrize("name", ["loop", "folder/loop"])
def test_SE_a_circular_link_in_the_data_is_named(data, tmp_path, name):
    (data / "folder").mkdir()
    (data / name).symlink_to("loop")
    assert list(outside_of(data, data)) == []
    with pytest.raises(SyncRefused, match=f"{name} cannot be read"):
        scan_data(data)


@pytest.mark.parametrize("nested", [False, True], ids=["folders side by side", "folders in one another"])
def test_SE_many_linked_folders_are_compared_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    calls = []
    is_below = Path.is_relative_to
    monkeypatch.setattr(Path, "is_relative_to", lambda *paths: bool(calls.append(paths)) or is_below(*paths))
    (tmp_path / "data").mkdir()
    elsewhere = tmp_path / "elsewhere"
    for number in range(300):
        folder = elsewhere / str(number) if nested else tmp_path / f"elsewhere{number}"
        folder.mkdir(parents=True)
        (folder / "x").touch()
        (tmp_path / f"data/l{number:03}").symlink_to(folder / "x")
    if nested:
        (tmp_path / "data/all").symlink_to(elsewhere)  # links to folders come before links to files
    found = list(outside_of(tmp_path / "data", tmp_path / "data"))
    assert len(found) == (1 if nested else 300)
    assert len(calls) < 10


def test_SE_a_linked_folder_is_not_read_before_it_was_yielded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data/more").mkdir(parents=True)
    (tmp_path / "private/inner").mkdir(parents=True)
    (tmp_path / "data/more/private").symlink_to(tmp_path / "private")
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    places = outside_of(tmp_path / "data", tmp_path / "data")
    assert next(places) == tmp_path / "private"
    assert not [path for path in listed if "private" in path]
    assert list(places) == [] and len([path for path in listed if "private" in path]) == 2
    assert next(outside_of(tmp_path / "private", tmp_path / "data")) == tmp_path / "private"


@pytest.mark.parametrize(
    "target", ["/q" + "/a" * 70, "a" + "/a" * 70, "deep"], ids=["absolute", "relative", "by links"]
)
def test_SE_a_link_to_a_deep_place_is_refused_before_it_is_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "data").mkdir()
    folder = tmp_path / "real"
    if target == "deep":
        (folder / "a/" / ("a/" * 40) / ("a/" * 30)).mkdir(parents=True)
        (tmp_path / "half").symlink_to("real/" + "a/" * 40)
        (tmp_path / "deep").symlink_to("half/" + "a/" * 30)
        target = "../deep"
    (tmp_path / "data/link").symlink_to(target)
    with pytest.raises(SyncRefused, match="link whose target is nested more than 64 folders deep"):
        list(outside_of(tmp_path / "data", tmp_path))


@pytest.mark.parametrize("read", [scan_data, lambda root: list(outside_of(root, root))], ids=["scan", "places"])
def test_SE_data_in_folders_that_are_too_deep_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    for levels, refused in ((64, False), (65, True)):
        folder = tmp_path / str(levels) / "/".join("a" * levels)
        folder.mkdir(parents=True)
        (folder / "x.txt").write_text("x")
        with pytest.raises(SyncRefused, match="more than 64 folders") if refused else nullcontext():
            read(tmp_path / str(levels))


@pytest.mark.parametrize("form", ["links to itself", "links to another folder", "two folders that link to each other"])
def test_SE_a_folder_with_many_links_to_it_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    folders = [tmp_path / "data/a", tmp_path / "data/b"]
    for folder, other in zip(folders, reversed(folders), strict=True):
        folder.mkdir(parents=True)
        (folder / "x.txt").write_text("x")
        for number in range(50 if form.startswith("two") or folder == folders[0] else 0):
            (folder / f"l{number}").symlink_to("." if "itself" in form else other)
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    assert len(scan_data(tmp_path / "data").files) == 2
    assert len(listed) == 3
    assert list(outside_of(tmp_path / "data", tmp_path)) == []
    assert len(listed) == 6


def test_the_first_path_in_order_names_the_files_of_a_linked_folder(tmp_path: Path) -> None:
    (tmp_path / "data/m/inner").mkdir(parents=True)
    (tmp_path / "data/m/inner/x.txt").write_text("x")
    (tmp_path / "data/a").symlink_to("m/inner")
    (tmp_path / "data/z").symlink_to("m")
    assert list(scan_data(tmp_path / "data").files) == ["a/x.txt"]
