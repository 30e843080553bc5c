"""The answers of an evaluation. Each answer is stored at once, so a killed job need not generate it again."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from remote.payload.files.atomic import write_atomic
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.samples import Sample
from remote.protocol.evaluation import ANSWERS

FOLDER = "answers"


class AnswerLog:
    """The answers in a run's folder. Each rank appends to its own file and reads the files of all ranks.

    `key` identifies the model that generated an answer: the digest of an adapter's weights, or `base`.
    """

    def __init__(self, run: str, rank: int = 0) -> None:
        self.folder = os.path.join(run, FOLDER)
        self.path = os.path.join(self.folder, f"rank-{rank}.jsonl")
        os.makedirs(self.folder, exist_ok=True)
        _cut_unfinished_line(self.path)
        self.known = dict(self._read())

    def refresh(self) -> None:
        """Read the answers that all ranks have written."""
        self.known = dict(self._read())

    def missing(self, key: str, samples: Iterable[Sample]) -> List[Sample]:
        """Return the samples that have no answer of the model yet."""
        return [sample for sample in samples if (key, sample.id) not in self.known]

    def append(self, key: str, samples: Sequence[Sample], texts: Sequence[str]) -> None:
        """Store the answers of one batch."""
        rows = [{"key": key, "id": sample.id, "answer": text} for sample, text in zip(samples, texts)]
        with open(self.path, "ab") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
            file.flush()
            os.fsync(file.fileno())
        self.known.update({(key, row["id"]): row["answer"] for row in rows})

    def as_bytes(self) -> bytes:
        """Return all answers in the form that `add` reads."""
        return json.dumps([[*place, text] for place, text in self.known.items()]).encode()

    def add(self, others: bytes) -> None:
        """Add the answers of another rank. Raises TrainingFailed if the data does not have the form of answers."""
        try:
            rows = json.loads(others)
            valid = all(len(row) == 3 and all(isinstance(each, str) for each in row) for row in rows)
        except (ValueError, TypeError, RecursionError):
            valid = False
        if not valid:
            raise TrainingFailed("share-invalid", "another rank sent answers that cannot be read")
        self.known.update({(key, sample): text for key, sample, text in rows})

    def count(self) -> int:
        """Return the number of answers that all ranks have stored."""
        return sum(1 for _ in self._read())

    def _read(self) -> Iterator[Tuple[Tuple[str, str], str]]:
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        row = json.loads(line)
                        yield (row["key"], row["id"]), row["answer"]


def _cut_unfinished_line(path: str) -> None:
    """Remove an incomplete last line that a killed job wrote."""
    with contextlib.suppress(FileNotFoundError), open(path, "r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def write_answers(run: str, rows: Iterable[Tuple[str, Sample, str]]) -> None:
    """Write answers.jsonl: the answer of each model to each sample, with the annotations to compare the answer with."""
    lines = (json.dumps(_row(model, sample, text), ensure_ascii=False) + "\n" for model, sample, text in rows)
    write_atomic(os.path.join(run, ANSWERS), "".join(lines).encode("utf-8", "surrogateescape"))


def _row(model: str, sample: Sample, text: str) -> Dict[str, object]:
    recording = sample.recording
    reference = {
        "text": recording.text,
        "phones_expected": list(recording.expected),
        "phones_said": list(recording.said),
        "scores": recording.scores,
        "speaker": recording.speaker,
    }
    return {
        "id": sample.id,
        "model": model,
        "task": sample.task,
        "answer": text,
        "target": sample.target,
        "reference": {name: value for name, value in reference.items() if value},
    }
