"""Recordings and their annotations, from a folder with metadata.jsonl or speechocean762 on the Hugging Face hub."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Tuple

import datasets

from remote.payload.training.failure import TrainingFailed
from remote.protocol.training import DataSpec

METADATA = "metadata.jsonl"
SPEECHOCEAN = "mispeech/speechocean762"
OMITTED = "<DEL>"


@dataclass(frozen=True)
class Recording:
    """One clip. `read` returns the file's bytes (FLAC, WAV); `expected` and `said` are ARPABET without stress digits.

    `scores` are of the whole utterance, 0-10; missing annotations are empty.
    """

    id: str
    read: Callable[[], bytes]
    text: str = ""
    expected: Tuple[str, ...] = ()
    said: Tuple[str, ...] = ()
    scores: Dict[str, float] = field(default_factory=dict)
    speaker: str = ""


def read_recordings(data: DataSpec, split: str) -> List[Recording]:
    """Return the split's recordings in the data set's own order. Raises TrainingFailed if there are none."""
    recordings = _from_folder(data.folder, split) if data.folder else _from_hub(data, split)
    if not recordings:
        where = data.folder or data.dataset
        raise TrainingFailed("data-empty", f"{where} has no recording in split {split!r}", hint="data.split")
    return recordings


def _from_folder(folder: str, split: str) -> List[Recording]:
    path = os.path.join(folder, METADATA)
    try:
        with open(path, encoding="utf-8") as file:
            rows = [(number, json.loads(line)) for number, line in enumerate(file, 1) if line.strip()]
    except FileNotFoundError:
        raise TrainingFailed("data-missing", f"{path} does not exist", hint="data.path") from None
    except ValueError as error:
        raise TrainingFailed("data-malformed", f"{path}: {error}") from error
    return [_from_row(folder, path, number, row) for number, row in rows if row.get("split", "train") == split]


def _from_row(folder: str, path: str, number: int, row: Dict[str, Any]) -> Recording:
    if not isinstance(row.get("file"), str):
        raise TrainingFailed("data-malformed", f"{path}, line {number}: no `file`")
    audio = os.path.normpath(os.path.join(folder, row["file"]))
    if not audio.startswith(os.path.normpath(folder) + os.sep):
        raise TrainingFailed("data-malformed", f"{path}, line {number}: {row['file']} is outside {folder}")
    return Recording(
        id=row["file"],
        read=lambda: _bytes_of(audio),
        text=str(row.get("text", "")),
        expected=tuple(row.get("phones_expected", ())),
        said=tuple(row.get("phones_said", ())),
        scores={name: float(value) for name, value in row.get("scores", {}).items()},
        speaker=str(row.get("speaker", "")),
    )


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _from_hub(data: DataSpec, split: str) -> List[Recording]:
    if data.dataset != SPEECHOCEAN:
        raise TrainingFailed(
            "data-unknown",
            f"no reader for {data.dataset}; {SPEECHOCEAN} and folders with {METADATA} can be read",
            hint="data.path",
        )
    table = datasets.load_dataset(data.dataset, revision=data.revision, split=split)
    return from_speechocean(table.cast_column("audio", datasets.Audio(decode=False)), split)


def from_speechocean(table: Any, split: str) -> List[Recording]:
    """Return the rows of speechocean762 as recordings; audio is decoded lazily.

    Format of the rows: words[] with phones[] (stress digits) and mispronunciations[] of canonical-phone, index and
    pronounced-phone, which is `<DEL>` for a phone left out, `<unk>` for an unidentified one, and ends in `*` for one
    said with an accent.
    """
    return [_from_speechocean_row(table, number, f"{split}-{number}") for number in range(len(table))]


def _from_speechocean_row(table: Any, number: int, name: str) -> Recording:
    row = table[number]
    expected, said = [], []
    for word in row["words"]:
        slips = {int(slip["index"]): slip["pronounced-phone"] for slip in word.get("mispronunciations") or ()}
        for position, phone in enumerate(word["phones"]):
            expected.append(_bare(phone))
            pronounced = slips.get(position, phone)
            if pronounced.upper() != OMITTED:
                said.append(_bare(pronounced))
    return Recording(
        id=name,
        read=lambda: _audio_bytes(table[number]["audio"]),
        text=row["text"],
        expected=tuple(expected),
        said=tuple(said),
        scores={name: float(row[name]) for name in ("accuracy", "fluency", "prosodic", "total")},
        speaker=str(row.get("speaker", "")),
    )


def _bare(phone: str) -> str:
    return phone.rstrip("*").rstrip("0123456789").upper() if not phone.startswith("<") else phone


def _audio_bytes(audio: Dict[str, Any]) -> bytes:
    data = audio.get("bytes")
    return data if data is not None else _bytes_of(audio["path"])
