"""Synthetic speech: every word is a pattern over the mel bands, with noise, from one seed."""

import torch
from tiny_phi4mm import MELS

WORDS = ("pace", "sheep", "ship", "bat", "bad", "light", "right", "very")


def make_samples(count: int, seed: int) -> list[dict]:
    """Return clips of one to three words, with 4 frames for each word, at 16 kHz."""
    source = torch.Generator().manual_seed(seed)
    patterns = torch.randn(len(WORDS), MELS, generator=source)
    samples = []
    for _ in range(count):
        spoken = torch.randint(0, len(WORDS), (int(torch.randint(1, 4, (1,), generator=source)),), generator=source)
        frames = patterns[spoken].repeat_interleave(4, dim=0)
        frames = frames + 0.1 * torch.randn(frames.shape, generator=source)
        samples.append({"text": " ".join(WORDS[word] for word in spoken), "frames": frames, "rate": 16000})
    return samples
