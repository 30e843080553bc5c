"""Prompts and answers of any data set: messages with audios, columns and templates of the config."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import soundfile

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.recordings import Recording, from_table, read_recordings
from remote.payload.training.samples import make_samples
from remote.payload.training.scores import Answer, judge_answers
from remote.payload.training.tasks import example_of, fill
from remote.protocol.training import DataSpec, Template

ASKED = "What is said?"


def dialogue(prompt: str = f"<audio>{ASKED}", answer: str = "hello", **more: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return {"messages": turns, "audios": ["a.wav"], **more}


def folder_of(path: Path, *rows: dict[str, Any], name: str = "metadata.jsonl", **spec: Any) -> DataSpec:
    (path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "a.wav").write_bytes(b"sound")
    return DataSpec(folder=str(path), **spec)


@pytest.mark.parametrize("prompt", [f"<audio>{ASKED}", f"<audio>\n{ASKED}", f"{ASKED}\n<audio>", ASKED])
def test_a_dialogue_gives_a_prompt_and_an_answer_without_the_audio_placeholder(tmp_path: Path, prompt: str) -> None:
    [recording] = read_recordings(folder_of(tmp_path, dialogue(prompt)), "train")
    assert example_of("messages", recording, {}) == (ASKED, "hello")
    assert (recording.id, recording.read()) == ("a.wav", b"sound")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**dialogue(), "audios": ["a.wav", "b.wav"]}, "line 1: 2 audio files, wanted one"),
        ({**dialogue(), "audios": []}, "line 1: 0 audio files"),
        (dialogue("say <audio> again <audio>"), "may only begin or end the prompt"),
        ({"audios": ["a.wav"], "messages": [{"role": "user", "content": "x"}]}, "messages of user; wanted one of user"),
        ({"audios": ["a.wav"], "messages": [{"role": "system", "content": "x"}]}, "messages of system"),
        ({"messages": []}, "no file or audio or audios"),
        ({"audios": ["../b.wav"]}, "is outside"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_line(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    with pytest.raises(TrainingFailed, match=words) as failed:
        read_recordings(folder_of(tmp_path, row), "train")
    assert failed.value.name == "data-malformed"


def test_columns_have_the_names_of_the_config(tmp_path: Path) -> None:
    row = {"wav": "a.wav", "sentence": "hello", "set": "dev", "who": 7, "language": "en"}
    columns = {"audio": "wav", "text": "sentence", "split": "set", "speaker": "who"}
    [recording] = read_recordings(folder_of(tmp_path, row, columns=columns), "dev")
    assert (recording.id, recording.text, recording.speaker) == ("a.wav", "hello", "7")
    template = Template("Write down the {language} words.", "{sentence}")
    assert example_of("asr", recording, {"asr": template}) == ("Write down the en words.", "hello")


def test_a_file_for_each_split_needs_no_column(tmp_path: Path) -> None:
    for split in ("train", "test"):
        folder_of(tmp_path, dialogue(answer=split), name=f"{split}.jsonl")
    spec = DataSpec(folder=str(tmp_path), file="{split}.jsonl")
    assert [read_recordings(spec, split)[0].dialogue[1] for split in ("train", "test")] == ["train", "test"]


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{a}: {b}", "1: x y"),
        ("no column", "no column"),
        ("{a} {missing}", None),
        ("{a} {none}", None),
        ("{}{1}", "{}{1}"),
    ],
)
def test_a_template_is_filled_with_columns(template: str, filled: str | None) -> None:
    assert fill(template, {"a": 1, "b": ["x", "y"], "none": None}) == filled


def test_a_table_of_datasets_is_read_with_its_columns() -> None:
    sound = io.BytesIO()
    soundfile.write(sound, 0.1 * np.ones(1600), 16_000, format="WAV")
    rows = [{"clip": {"bytes": sound.getvalue(), "path": None}, "sentence": "hello"}]
    table = datasets.Dataset.from_list(rows).cast_column("clip", datasets.Audio())
    data = DataSpec(dataset="me/mine", columns={"audio": "clip", "text": "sentence"})
    [recording] = from_table(table, data, "train")
    assert (recording.text, recording.read()) == ("hello", sound.getvalue())
    with pytest.raises(TrainingFailed, match="no column 'audio'; its columns are clip, sentence"):
        from_table(table, DataSpec(dataset="me/mine"), "train")


def test_samples_of_a_template_use_its_prompt_and_answer(made: Callable[[str], Any]) -> None:
    one = made("tiny/phi4-multimodal")
    templates = {"words": Template("Write: {text}", "{text}")}
    samples = make_samples(
        one.recordings, ("apa", "words"), one.base.family, one.base.tokenizer, one.clip_of, templates
    )
    assert [sample.task for sample in samples.samples[:2]] == ["apa", "words"]
    sample = samples.samples[1]
    text = sample.recording.text
    assert sample.target == text
    assert f"Write: {text}" in one.base.tokenizer.decode(sample.prompt)


def test_answers_of_other_tasks_are_compared_with_their_reference_texts() -> None:
    pairs = [("hello world", "Hello world"), ("good day", "good day"), ("a b c d", "a x c d")]
    answers = [Answer("asr", Recording(str(n), bytes), got, wanted) for n, (wanted, got) in enumerate(pairs)]
    judged = {name: one.value for name, one in judge_answers(answers, resamples=10).items()}
    assert judged == pytest.approx({"asr/wer": 1 / 8, "asr/cer": 1 / 26, "asr/exact": 1 / 3})
