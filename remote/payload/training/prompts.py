"""The prompts for a recording and the format of the answers, for pronunciation scores (apa) and spoken phones (mdd).

Each prompt begins with a control token, as in arXiv 2509.02915 section 3, followed by a long scoring rubric for apa and
a short one for mdd. The control tokens are not in the tokenizer's vocabulary. They are tokenized as plain text, so the
adapter fits an unmodified base model.
"""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple

from remote.payload.training.recordings import Recording
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import ASPECTS

CONTROL = {"apa": "<|APA|>", "mdd": "<|MDD|>"}

_RUBRIC = (
    "Listen to the learner of English and score the pronunciation in four aspects, each from 0 to 10.\n"
    "accuracy, how the sounds are said. 9-10: all words are said well, without an accent that disturbs. 7-8: most "
    "words are said well, a few sounds are off. 5-6: the meaning is clear, many sounds are off. 3-4: hard to "
    "understand. 0-2: hardly a word can be understood.\n"
    "fluency, how the speech flows. 8-10: no pause that disturbs, no repetition. 6-7: mostly smooth, some pauses. 4-5: "
    "slow, with pauses between words. 0-3: word by word, or not to be followed.\n"
    "prosodic, stress and melody. 9-10: right stress, rhythm and intonation. 7-8: mostly right. 5-6: often flat or "
    "stressed in the wrong place. 3-4: flat and without rhythm. 0-2: no melody at all.\n"
    "total, the overall impression of an experienced teacher.\n"
    "Answer in this form: accuracy N, fluency N, prosodic N, total N"
)

_PHONES = "Write down the words, then the phones that were really said, in ARPABET."

PROMPTS = {"apa": f"{CONTROL['apa']}{_RUBRIC}", "mdd": f"{CONTROL['mdd']}{_PHONES}"}

_SCORES = re.compile(r"accuracy (\d+), fluency (\d+), prosodic (\d+), total (\d+)")
_SAID = re.compile(r"\s*text:[ \t]*(?P<text>[^\n]*)\nphones:[ \t]*(?P<phones>[^\n]*)")


@dataclass(frozen=True)
class Transcript:
    """An answer to the mdd prompt."""

    words: Tuple[str, ...]
    phones: Tuple[str, ...]


def target_of(task: str, recording: Recording) -> Optional[str]:
    """Return the reference answer, or None if the recording has no annotation for the task."""
    if task == "apa":
        if any(aspect not in recording.scores for aspect in ASPECTS):
            return None
        return ", ".join(f"{aspect} {round(recording.scores[aspect])}" for aspect in ASPECTS)
    if not recording.said:
        return None
    return f"text: {recording.text.lower()}\nphones: {' '.join(recording.said)}"


def parse_scores(answer: str) -> Optional[Dict[str, int]]:
    """Return the four scores of an apa answer, or None if its format differs or a score is above 10."""
    match = _SCORES.search(answer)
    if match is None:
        return None
    scores = dict(zip(ASPECTS, (int(digits) for digits in match.groups())))
    return scores if max(scores.values()) <= 10 else None


def parse_transcript(answer: str) -> Optional[Transcript]:
    """Return the words and phones of an mdd answer, or None if its format differs."""
    match = _SAID.match(answer)
    if match is None:
        return None
    return Transcript(tuple(match["text"].split()), tuple(match["phones"].split()))
