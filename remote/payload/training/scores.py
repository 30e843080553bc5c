"""The scores of answers, by metric: correlations per aspect, error rates, detection of mispronounced phones.

`metrics` computes the point estimates, `resampling` their intervals.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Dict, FrozenSet, Iterable, Optional, Sequence

from remote.payload.training.metrics import edits, mispronounced, pearson, spearman
from remote.payload.training.prompts import Transcript, parse_scores, parse_transcript
from remote.payload.training.recordings import Recording
from remote.payload.training.resampling import as_row, draw_counts, interval, pearson_of, ratio_of, spearman_of
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import ASPECTS, Estimate

Metrics = Dict[str, Estimate]
UNANSWERED_SCORE = 0.0
EMPTY_TRANSCRIPT = Transcript((), ())


@dataclass(frozen=True)
class Answer:
    """A model's answer to the prompt of a task for a recording."""

    task: str
    recording: Recording
    text: str
    target: str = ""

    @property
    def group(self) -> str:
        """The speaker, or the recording if its speaker is unknown."""
        return f"speaker {self.recording.speaker}" if self.recording.speaker else self.recording.id


def judge_answers(answers: Sequence[Answer], *, resamples: int = 0, seed: int = 0) -> Metrics:
    """Return the metrics of every task that has answers, under names that begin with `task/`."""
    judged: Metrics = {}
    for task in sorted({answer.task for answer in answers}):
        judge = JUDGES.get(task, judge_texts)
        chosen = [answer for answer in answers if answer.task == task]
        counts = draw_counts([answer.group for answer in chosen], resamples, seed)
        judged.update({f"{task}/{name}": value for name, value in judge(chosen, counts).items()})
    return judged


def judge_scores(answers: Sequence[Answer], counts: Any) -> Metrics:
    """Return Pearson and Spearman per aspect. `answered` is the share of answers in the requested format.

    `pearson` and `spearman` use only these answers. In `pearson_all` and `spearman_all`, an answer in another format
    counts as a score of 0.
    """
    parsed = [parse_scores(answer.text) for answer in answers]
    kept = [number for number, scores in enumerate(parsed) if scores is not None]
    judged: Metrics = {"answered": Estimate(len(kept) / len(answers))}
    for aspect in ASPECTS:
        right = [answer.recording.scores[aspect] for answer in answers]
        given = [float(scores[aspect]) if scores is not None else UNANSWERED_SCORE for scores in parsed]
        for suffix, rows in (("", kept), ("_all", list(range(len(answers))))):
            xs, ys = [right[i] for i in rows], [given[i] for i in rows]
            drawn, x, y = counts[:, rows], as_row(xs), as_row(ys)
            judged[f"{aspect}/pearson{suffix}"] = _estimate(pearson(xs, ys), pearson_of(x, y, drawn))
            judged[f"{aspect}/spearman{suffix}"] = _estimate(spearman(xs, ys), spearman_of(x, y, drawn))
    return judged


def judge_transcripts(answers: Sequence[Answer], counts: Any) -> Metrics:
    """Return WER, PER, and precision, recall and F1 of mispronounced phones.

    An answer in another format counts as an empty transcript. Metrics with the suffix `_answered` do not include it.
    """
    parsed = [parse_transcript(answer.text) for answer in answers]
    kept = [number for number, transcript in enumerate(parsed) if transcript is not None]
    judged: Metrics = {"answered": Estimate(len(kept) / len(answers))}
    rows = [count_row(answer.recording, given or EMPTY_TRANSCRIPT) for answer, given in zip(answers, parsed)]
    for suffix, chosen in (("", list(range(len(answers)))), ("_answered", kept)):
        chosen_counts = judge_counts([rows[i] for i in chosen], counts[:, chosen])
        judged.update({f"{name}{suffix}": value for name, value in chosen_counts.items()})
    return judged


@dataclass(frozen=True)
class RowCounts:
    """The counts that one transcript adds to the sums of the metrics.

    A phone is mispronounced if the spoken phone differs from the expected phone, and flagged if the phone in the answer
    differs from the expected phone. Insertions do not count. Recordings without expected phones add nothing to these
    counts.
    """

    word_edits: int
    words: int
    phone_edits: int
    phones: int
    flagged: int = 0
    mispronounced: int = 0
    hits: int = 0


def count_row(recording: Recording, given: Transcript) -> RowCounts:
    """Return the counts of one transcript."""
    words = recording.text.lower().split()
    wrong: FrozenSet[int] = frozenset()
    flagged: FrozenSet[int] = frozenset()
    if recording.expected:
        wrong = mispronounced(recording.expected, recording.said)
        flagged = mispronounced(recording.expected, given.phones)
    return RowCounts(
        word_edits=edits(words, given.words),
        words=len(words),
        phone_edits=edits(recording.said, given.phones),
        phones=len(recording.said),
        flagged=len(flagged),
        mispronounced=len(wrong),
        hits=len(wrong & flagged),
    )


def judge_counts(rows: Sequence[RowCounts], counts: Any) -> Metrics:
    """Return WER and PER (edits per token of the reference; can be above 1), precision, recall and F1 of the rows."""
    column = {one.name: _row_of(getattr(row, one.name) for row in rows) for one in fields(RowCounts)}
    parts = {
        "wer": (column["word_edits"], column["words"]),
        "per": (column["phone_edits"], column["phones"]),
        "precision": (column["hits"], column["flagged"]),
        "recall": (column["hits"], column["mispronounced"]),
        "f1": (2 * column["hits"], column["flagged"] + column["mispronounced"]),
    }
    return {
        name: _estimate(over.sum() / under.sum() if under.sum() else None, ratio_of(over, under, counts))
        for name, (over, under) in parts.items()
    }


def judge_texts(answers: Sequence[Answer], counts: Any) -> Metrics:
    """Return word and character error rate in lower case, and the share of answers that are exactly the reference."""
    pairs = [(answer.target.lower().split(), answer.text.lower().split()) for answer in answers]
    letters = [(" ".join(wanted), " ".join(got)) for wanted, got in pairs]
    one = as_row([1.0] * len(answers))
    parts = {
        "wer": (_row_of(edits(*pair) for pair in pairs), _row_of(len(wanted) for wanted, _ in pairs)),
        "cer": (_row_of(edits(*pair) for pair in letters), _row_of(len(wanted) for wanted, _ in letters)),
        "exact": (_row_of(answer.text.strip() == answer.target.strip() for answer in answers), one),
    }
    return {
        name: _estimate(over.sum() / under.sum() if under.sum() else None, ratio_of(over, under, counts))
        for name, (over, under) in parts.items()
    }


def _row_of(values: Iterable[float]) -> Any:
    return as_row([float(value) for value in values])


JUDGES = {"apa": judge_scores, "mdd": judge_transcripts}
"""The metrics of the built-in tasks. Answers of any other task are compared with their reference texts."""


def _estimate(value: Optional[float], resampled: Any) -> Estimate:
    return Estimate(float(value), *interval(resampled)) if value is not None else Estimate(None)
