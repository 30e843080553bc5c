"""Recordings and their annotations, from a folder with metadata.jsonl or speechocean762 on the Hugging Face hub."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Tuple

import datasets

from remote.payload.training.failure import TrainingFailed
from remote.protocol.dataclass import dataclass, field
from remote.protocol.training import MESSAGES, DataSpec

SPEECHOCEAN = "mispeech/speechocean762"
OMITTED = "<DEL>"
AUDIO = "<audio>"
SPLIT = "{split}"


@dataclass(frozen=True)
class Recording:
    """One clip. `read` returns the file's bytes (FLAC, WAV); `expected` and `said` are ARPABET without stress digits.

    `scores` rate the whole utterance, 0-10. Missing annotations are empty. `row` has all columns of the data.
    `dialogue` is the prompt and the answer in the column `messages`.
    """

    id: str
    read: Callable[[], bytes]
    text: str = ""
    expected: Tuple[str, ...] = ()
    said: Tuple[str, ...] = ()
    scores: Dict[str, float] = field(default_factory=dict)
    speaker: str = ""
    row: Dict[str, Any] = field(default_factory=dict)
    dialogue: Tuple[str, ...] = ()


def read_recordings(data: DataSpec, split: str) -> List[Recording]:
    """Return the split's recordings in the order of the data set. Raises TrainingFailed if the split is empty."""
    recordings = _from_folder(data, split) if data.folder else _from_hub(data, split)
    if not recordings:
        where = data.folder or data.dataset
        raise TrainingFailed("data-empty", f"{where} has no recording in split {split!r}", hint="data.split")
    return recordings


def _from_folder(data: DataSpec, split: str) -> List[Recording]:
    assert data.folder is not None
    path = os.path.join(data.folder, data.file.replace(SPLIT, split))
    try:
        with open(path, encoding="utf-8") as file:
            rows = [(number, json.loads(line)) for number, line in enumerate(file, 1) if line.strip()]
    except FileNotFoundError:
        raise TrainingFailed("data-missing", f"{path} does not exist", hint="data.path") from None
    except ValueError as error:
        raise TrainingFailed("data-malformed", f"{path}: {error}") from error
    column = data.columns.get("split", "split")
    in_name = SPLIT in data.file and column not in (rows[0][1] if rows else {})
    return [_from_row(data, path, number, row) for number, row in rows if in_name or row.get(column, "train") == split]


def _from_row(data: DataSpec, path: str, number: int, row: Dict[str, Any]) -> Recording:
    folder = os.path.normpath(str(data.folder))
    where = f"{path}, line {number}"
    name = _audio_name(data, row, where)
    audio = os.path.normpath(os.path.join(folder, name))
    if not audio.startswith(folder + os.sep):
        raise TrainingFailed("data-malformed", f"{where}: {name} is outside {folder}")
    return recording_of(data, name, row, lambda: _bytes_of(audio), where)


def recording_of(data: DataSpec, name: str, row: Dict[str, Any], read: Callable[[], bytes], where: str) -> Recording:
    """Convert a row to a recording. The config names the columns.

    Raises TrainingFailed if the row is not valid.
    """

    def column(known: str, default: Any) -> Any:
        value = row.get(data.columns.get(known, known))
        return default if value is None else value

    return Recording(
        id=name,
        read=read,
        text=str(column("text", "")),
        expected=tuple(column("phones_expected", ())),
        said=tuple(column("phones_said", ())),
        scores={aspect: float(value) for aspect, value in column("scores", {}).items()},
        speaker=str(column("speaker", "")),
        row=row,
        dialogue=_dialogue(column(MESSAGES, None), where),
    )


def _audio_name(data: DataSpec, row: Dict[str, Any], where: str) -> str:
    """Return the path of the row's only audio file, from the config's column `audio`, or `file`, `audio`, `audios`."""
    names = (data.columns["audio"],) if "audio" in data.columns else ("file", "audio", "audios")
    value = next((row[name] for name in names if name in row), None)
    files = value if isinstance(value, list) else [value]
    if len(files) != 1 or not isinstance(files[0], str):
        problem = f"{len(files)} audio files, wanted one" if len(files) != 1 else f"no {' or '.join(names)}"
        raise TrainingFailed("data-malformed", f"{where}: {problem}", hint="data.columns: {audio: NAME}")
    return files[0]


def _dialogue(messages: Any, where: str) -> Tuple[str, ...]:
    """Return the prompt and the answer in `messages`, or an empty tuple without messages.

    The supported models take the audio before or after the text, so its placeholder must begin or end the prompt.
    """
    if messages is None:
        return ()
    turns = [(one.get("role"), one.get("content")) for one in messages if isinstance(one, dict)]
    if [role for role, _ in turns] != ["user", "assistant"] or not all(isinstance(text, str) for _, text in turns):
        got = ", ".join(str(role) for role, _ in turns) or "none"
        problem = f"messages of {got}; wanted one of user, then one of assistant, each with a text"
        raise TrainingFailed("data-malformed", f"{where}: {problem}")
    prompt = str(turns[0][1]).strip()
    prompt = prompt.removeprefix(AUDIO) if prompt.startswith(AUDIO) else prompt.removesuffix(AUDIO)
    if AUDIO in prompt:
        raise TrainingFailed("data-malformed", f"{where}: {AUDIO} may only begin or end the prompt, once")
    return prompt.strip(), str(turns[1][1])


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _from_hub(data: DataSpec, split: str) -> List[Recording]:
    if data.dataset != SPEECHOCEAN and not (data.columns or data.templates or MESSAGES in data.tasks):
        raise TrainingFailed(
            "data-unknown",
            f"no reader for {data.dataset}: without `columns` or `templates`, {SPEECHOCEAN} and folders can be read",
            hint="data.columns",
        )
    table = datasets.load_dataset(data.dataset, revision=data.revision, split=split)
    if data.dataset == SPEECHOCEAN:
        return from_speechocean(table.cast_column("audio", datasets.Audio(decode=False)), split)
    return from_table(table, data, split)


def from_table(table: Any, data: DataSpec, split: str) -> List[Recording]:
    """Return the rows of a table of `datasets` as recordings. The config names the columns. Audio is read lazily.

    Raises TrainingFailed if there is no column of audio.
    """
    audio = data.columns.get("audio", "audio")
    if audio not in table.column_names:
        message = f"{data.dataset} has no column {audio!r}; its columns are {', '.join(table.column_names)}"
        raise TrainingFailed("data-malformed", message, hint="data.columns: {audio: NAME}")
    sounds = table.cast_column(audio, datasets.Audio(decode=False))
    rows = sounds.remove_columns([audio])

    def reader(number: int) -> Callable[[], bytes]:
        return lambda: _audio_bytes(sounds[number][audio])

    return [
        recording_of(data, f"{split}-{number}", row, reader(number), f"{data.dataset}, row {number}")
        for number, row in enumerate(rows)
    ]


def from_speechocean(table: Any, split: str) -> List[Recording]:
    """Return the rows of speechocean762 as recordings. Audio is decoded lazily.

    Format of the rows: words[] with phones[] (with stress digits) and mispronunciations[] (canonical-phone, index,
    pronounced-phone). The pronounced-phone is `<DEL>` for an omitted phone and `<unk>` for an unidentified phone. The
    pronounced-phone ends in `*` for a phone with an accent.
    """
    return [_from_speechocean_row(table, number, f"{split}-{number}") for number in range(len(table))]


def _from_speechocean_row(table: Any, number: int, name: str) -> Recording:
    row = table[number]
    expected, said = [], []
    for word in row["words"]:
        mispronunciations = {
            int(entry["index"]): entry["pronounced-phone"] for entry in word.get("mispronunciations") or ()
        }
        for position, phone in enumerate(word["phones"]):
            expected.append(_without_stress(phone))
            pronounced = mispronunciations.get(position, phone)
            if pronounced.upper() != OMITTED:
                said.append(_without_stress(pronounced))
    return Recording(
        id=name,
        read=lambda: _audio_bytes(table[number]["audio"]),
        text=row["text"],
        expected=tuple(expected),
        said=tuple(said),
        scores={name: float(row[name]) for name in ("accuracy", "fluency", "prosodic", "total")},
        speaker=str(row.get("speaker", "")),
    )


def _without_stress(phone: str) -> str:
    return phone.rstrip("*").rstrip("0123456789").upper() if not phone.startswith("<") else phone


def _audio_bytes(audio: Dict[str, Any]) -> bytes:
    data = audio.get("bytes")
    return data if data is not None else _bytes_of(audio["path"])
