"""Training samples: one recording with the prompt and answer of one task, as token ids."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from remote.payload.training.families.audio_model import AudioModel
from remote.payload.training.features import Clip
from remote.payload.training.recordings import Recording
from remote.payload.training.tasks import example_of
from remote.protocol.dataclass import dataclass
from remote.protocol.training import FIRST, Template, task_of


@dataclass(frozen=True)
class Sample:
    """One prompt and its answer. `prompt` has a placeholder for each audio token; `end` terminates the answer.

    `audio` is the range of the placeholders in the prompt: the first position, and the position after the last one.
    """

    id: str
    task: str
    recording: Recording
    target: str
    prompt: Tuple[int, ...]
    answer: Tuple[int, ...]
    end: Tuple[int, ...]
    audio: Tuple[int, int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer) + len(self.end)

    @property
    def labels(self) -> int:
        """The number of tokens with a label."""
        return len(self.answer) + len(self.end)


@dataclass(frozen=True)
class SampleSet:
    """The samples of some recordings.

    `by_recording[i]` are the indices of the samples of the i-th recording, one for each annotated task.
    """

    samples: Tuple[Sample, ...]
    by_recording: Tuple[Tuple[int, ...], ...]
    clip_of: Callable[[Recording], Clip]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Tuple[Sample, Clip]:
        sample = self.samples[index]
        return sample, self.clip_of(sample.recording)

    @property
    def lengths(self) -> List[int]:
        """The number of tokens of each sample."""
        return [len(sample) for sample in self.samples]

    def epoch(self, epoch: int) -> List[int]:
        """Return one sample of each recording. The tasks of a recording alternate from epoch to epoch."""
        return [indexes[task_of(i, epoch, len(indexes))] for i, indexes in enumerate(self.by_recording)]


def make_samples(
    recordings: Sequence[Recording],
    tasks: Sequence[str],
    model: AudioModel,
    tokenizer: Any,
    clip_of: Callable[[Recording], Clip],
    templates: Mapping[str, Template],
    audio_position: str = FIRST,
) -> SampleSet:
    """Return a sample for every annotated task of every recording. Recordings without annotations are left out."""
    chat = model.chat if audio_position == FIRST else model.chat_audio_last
    texts: Dict[str, Tuple[List[int], List[int]]] = {}
    end = tuple(_markup_ids(model, model.end, tokenizer))
    audio = tokenizer.convert_tokens_to_ids(model.placeholder)
    samples: List[Sample] = []
    by_recording: List[Tuple[int, ...]] = []
    for recording in recordings:
        indexes = []
        for task in tasks:
            example = example_of(task, recording, templates)
            if example is None:
                continue
            prompt_text, target = example
            if prompt_text not in texts:
                before, after = (_chat_ids(model, part, prompt_text, tokenizer) for part in chat.split("{audio}"))
                texts[prompt_text] = before, after
            before, after = texts[prompt_text]
            prompt = (*before, *[audio] * clip_of(recording).tokens, *after)
            indexes.append(len(samples))
            answer = tuple(_ids(tokenizer, target))
            audio_range = (len(before), len(prompt) - len(after))
            samples.append(Sample(f"{recording.id}#{task}", task, recording, target, prompt, answer, end, audio_range))
        if indexes:
            by_recording.append(tuple(indexes))
    return SampleSet(tuple(samples), tuple(by_recording), clip_of)


def _chat_ids(model: AudioModel, part: str, prompt: str, tokenizer: Any) -> List[int]:
    """Return the token ids of the chat template before or after the audio. Only one of the two contains {prompt}."""
    if not model.markup:
        return _ids(tokenizer, part.replace("{prompt}", prompt))
    opening, match, closing = part.partition("{prompt}")
    text = _ids(tokenizer, prompt) if match else []
    return [*_markup_ids(model, opening, tokenizer), *text, *_markup_ids(model, closing, tokenizer)]


def _markup_ids(model: AudioModel, text: str, tokenizer: Any) -> List[int]:
    """Return the ids of a part of the chat.

    The family's markup tokens are looked up in the vocabulary instead of tokenized.
    """
    if not model.markup:
        return _ids(tokenizer, text)
    parts = re.split(f"({'|'.join(map(re.escape, model.markup))})", text)
    known = {token: [int(tokenizer.convert_tokens_to_ids(token))] for token in model.markup}
    return [id for part in parts if part for id in known.get(part) or _ids(tokenizer, part)]


def _ids(tokenizer: Any, text: str) -> List[int]:
    ids: List[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
