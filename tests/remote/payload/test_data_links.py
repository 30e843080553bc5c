"""Large data is linked into a job's copy of the code, whatever is at that place already."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.payload.files.data_links import place_data


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "sent" / "0123"
    (folder / "wavs").mkdir(parents=True)
    (folder / "wavs" / "a.wav").write_bytes(b"RIFF")
    return folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    return tmp_path / "code"


@pytest.mark.parametrize("place", ["data", "corpora/speech"])
def test_the_data_is_found_at_its_local_path(code: Path, data: Path, place: str) -> None:
    place_data({place: str(data)}, str(code))
    place_data({place: str(data)}, str(code))
    assert (code / place / "wavs" / "a.wav").read_bytes() == b"RIFF"


def test_the_files_of_the_project_in_that_folder_stay(code: Path, data: Path) -> None:
    (code / "data" / "wavs").mkdir(parents=True)
    (code / "data" / ".gitkeep").write_text("")
    (code / "data" / "wavs" / "mine.wav").write_bytes(b"mine")
    place_data({"data": str(data)}, str(code))
    found = {path.relative_to(code).as_posix() for path in (code / "data").rglob("*") if path.is_file()}
    assert found == {"data/.gitkeep", "data/wavs/mine.wav", "data/wavs/a.wav"}
    assert sorted(path.name for path in (data / "wavs").iterdir()) == ["a.wav"]


def test_a_link_on_the_host_is_replaced_by_what_was_sent(code: Path, data: Path, tmp_path: Path) -> None:
    (code / "data").symlink_to(tmp_path / "elsewhere")
    place_data({"data": str(data)}, str(code))
    assert (code / "data").resolve() == data.resolve()


def test_no_link_is_created_behind_a_link_out_of_the_code(code: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (code / "data").symlink_to(tmp_path / "elsewhere")
    place_data({"data/speech": str(data)}, str(code))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_one_file_is_found_at_its_place(code: Path, data: Path) -> None:
    place_data({"lists/train.tsv": str(data / "wavs" / "a.wav")}, str(code))
    assert (code / "lists" / "train.tsv").read_bytes() == b"RIFF"
