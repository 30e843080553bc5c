"""Collator for the audio samples. Copied here for the notebook, works with transformers' processor."""

import torch
from torch.nn.utils.rnn import pad_sequence

PROMPT = "<|user|>say what you hear<|end|><|assistant|>"


class AudioDataCollator:
    def __init__(self, processor) -> None:
        self.processor = processor

    def __call__(self, samples: list[dict]) -> dict[str, torch.Tensor]:
        made = [
            self.processor(
                text=f"{PROMPT}{sample['text']}<|end|>", audios=[sample["frames"]], sampling_rate=sample["rate"]
            )
            for sample in samples
        ]
        ids = [one["input_ids"] for one in made]
        return {
            "input_ids": pad_sequence(ids, batch_first=True),
            "labels": pad_sequence(ids, batch_first=True),
            "input_audio": pad_sequence([one["input_audio"] for one in made], batch_first=True),
        }
