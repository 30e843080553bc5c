"""Makes a batch of clips and their transcripts, with the processor that comes with the model."""

import torch
from torch.nn.utils.rnn import pad_sequence

PROMPT = "<|user|>say what you hear<|end|><|assistant|>"


class AudioDataCollator:
    """Collator whose labels are the tokens of the answer; prompt and padding are -100."""

    def __init__(self, processor) -> None:
        self.processor = processor

    def __call__(self, samples: list[dict]) -> dict[str, torch.Tensor]:
        ids, labels, audio = [], [], []
        asked = len(self.processor.tokenizer.encode(PROMPT).ids)
        for sample in samples:
            text = f"{PROMPT}{sample['text']}<|end|>"
            made = self.processor(text=text, audios=[(sample["frames"], sample["rate"])])
            label = made["input_ids"].clone()
            label[:asked] = -100
            ids.append(made["input_ids"])
            labels.append(label)
            audio.append(made["input_audio"])
        return {
            "input_ids": pad_sequence(ids, batch_first=True),
            "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
            "input_audio": pad_sequence(audio, batch_first=True),
        }
