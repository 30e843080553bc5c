"""Reading recordings from a folder and from rows of speechocean762, and what is refused before training."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import soundfile

from remote.payload.training.audio import RATE, decode, judge_clip, resample
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.preflight import usable_recordings
from remote.payload.training.recordings import from_speechocean, read_recordings
from remote.protocol.training import DataSpec

SPEECH = Path(__file__).parents[3] / "examples" / "tiny-speech"


def flac(samples: Any, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="FLAC")
    return file.getvalue()


def tone(seconds: float = 1.0) -> Any:
    return 0.3 * np.sin(np.arange(int(RATE * seconds)) * 0.1)


def folder_of(path: Path, *rows: dict[str, Any]) -> DataSpec:
    (path / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return DataSpec(folder=str(path))


def test_the_shipped_set_has_a_train_and_a_test_split_with_known_phones_and_scores() -> None:
    data = DataSpec(folder=str(SPEECH))
    train, test = read_recordings(data, "train"), read_recordings(data, "test")
    assert (len(train), len(test)) == (44, 13)
    assert all(recording.said and recording.expected and len(recording.scores) == 4 for recording in train + test)
    assert any(recording.said != recording.expected for recording in test)
    assert sum(path.stat().st_size for path in SPEECH.rglob("*.flac")) < 4_000_000


def test_every_shipped_clip_is_usable_and_its_row_has_valid_phones() -> None:
    for line in (SPEECH / "metadata.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert judge_clip(resample(*decode((SPEECH / row["file"]).read_bytes())), 0.1, 30) is None
        wrong = {error["index"]: error["said"] for error in row["errors"]}
        rebuilt = [wrong.get(i, phone) for i, phone in enumerate(row["phones_expected"])]
        assert [phone for phone in rebuilt if phone] == row["phones_said"]
        assert [int(i not in wrong) for i in range(len(rebuilt))] == row["phones_correct"]


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (tone(), None),
        (tone(0.05), "lasts 0.05 s, wanted at least 0.1 s"),
        (np.zeros(RATE), "silent"),
        (tone(31), "at most 30 s"),
        (np.full(RATE, np.nan), "not finite"),
    ],
)
def test_an_unusable_clip_is_reported_with_the_reason(samples: Any, problem: str | None) -> None:
    reason = judge_clip(samples.astype(np.float32), 0.1, 30)
    assert (problem is None and reason is None) or (reason is not None and problem is not None and problem in reason)


def test_stereo_is_mixed_to_mono() -> None:
    samples, rate = decode(flac(np.stack([tone(), -tone()], axis=1)))
    assert (samples.ndim, rate) == (1, RATE)
    assert np.abs(samples).max() < 1e-4


def test_bad_clips_are_named_before_training_and_skipped_up_to_a_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "noise.flac").write_bytes(b"fLaC but no more")
    (tmp_path / "good.flac").write_bytes(flac(tone()))
    data = folder_of(tmp_path, {"file": "noise.flac"}, {"file": "gone.flac"}, {"file": "good.flac"})

    recordings = read_recordings(data, "train")
    named = r"noise\.flac .*; gone\.flac "
    with pytest.raises(TrainingFailed, match=rf"2 of 3 clips cannot be used: {named}") as failed:
        usable_recordings(recordings, length_of, 0)
    assert failed.value.name == "data-clips"
    with pytest.raises(TrainingFailed, match=r"data\.max_skipped is 1"):
        usable_recordings(recordings, length_of, 1)
    with caplog.at_level("WARNING"):
        assert [one.id for one in usable_recordings(recordings, length_of, 2)] == ["good.flac"]
    assert [line.split()[1] for line in caplog.messages] == ["noise.flac", "gone.flac"]


def length_of(recording: Any) -> Any:
    samples, _ = decode(recording.read())
    return len(samples)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_another_rate_is_resampled_to_16_khz(rate: int) -> None:
    """A tone of 1 kHz keeps its pitch, its loudness and its duration."""
    made = resample(np.sin(2 * np.pi * 1000 * np.arange(rate) / rate).astype(np.float32), rate)
    assert (len(made), made.dtype) == (RATE, np.float32)
    spectrum = np.abs(np.fft.rfft(made))
    assert int(spectrum.argmax()) == 1000
    assert np.sqrt(np.mean(made[1000:-1000] ** 2)) == pytest.approx(np.sqrt(0.5), rel=0.01)


def test_a_clip_at_16_khz_is_not_changed() -> None:
    samples = tone().astype(np.float32)
    assert resample(samples, RATE) is samples


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (None, "data-missing"),
        ("{not json\n", "data-malformed"),
        ('{"text": "no file"}\n', "data-malformed"),
        ('{"file": "../../etc/passwd"}\n', "data-malformed"),
        ('{"file": "a.flac", "split": "test"}\n', "data-empty"),
    ],
)
def test_a_folder_that_is_no_data_set_is_refused_by_name(tmp_path: Path, text: str | None, name: str) -> None:
    if text is not None:
        (tmp_path / "metadata.jsonl").write_text(text)
    with pytest.raises(TrainingFailed) as failed:
        read_recordings(DataSpec(folder=str(tmp_path)), "train")
    assert failed.value.name == name


def test_an_unreadable_data_set_is_refused_by_name() -> None:
    with pytest.raises(TrainingFailed, match="some/other") as failed:
        read_recordings(DataSpec(dataset="some/other"), "train")
    assert failed.value.name == "data-unknown"


def test_rows_of_speechocean762_become_recordings() -> None:
    slips = [
        {"canonical-phone": "AA0", "index": 1, "pronounced-phone": "AO*"},
        {"canonical-phone": "K", "index": 3, "pronounced-phone": "<DEL>"},
    ]
    word = {"text": "MARK", "phones": ["M", "AA0", "R", "K"], "mispronunciations": slips}
    plain = {"text": "IS", "phones": ["IH0", "Z"], "mispronunciations": []}
    row = {
        "accuracy": 9, "completeness": 10.0, "fluency": 8, "prosodic": 7, "total": 6, "text": "MARK IS",
        "words": [word, plain], "audio": {"bytes": flac(tone()), "path": None},
    }  # fmt: skip
    table = datasets.Dataset.from_list([row]).cast_column("audio", datasets.Audio(decode=False))
    (recording,) = from_speechocean(table, "train")
    assert recording.expected == ("M", "AA", "R", "K", "IH", "Z")
    assert recording.said == ("M", "AO", "R", "IH", "Z")
    assert recording.scores == {"accuracy": 9, "fluency": 8, "prosodic": 7, "total": 6}
    assert judge_clip(resample(*decode(recording.read())), 0.1, 30) is None
