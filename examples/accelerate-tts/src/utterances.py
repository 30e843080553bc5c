"""Synthetic utterances: every phone has its own spectrum and duration, every speaker a spectral tilt."""

import torch

PHONES, BINS, LONGEST = 24, 20, 5


def make_utterances(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Return `count` utterances: phones (n,), durations (n,) in frames, and mel spectrogram (frames, bins)."""
    dice = torch.Generator().manual_seed(seed)
    spectra = torch.randn(PHONES, BINS, generator=dice)
    lengths = torch.randint(2, LONGEST + 1, (PHONES,), generator=dice)
    made = []
    for _ in range(count):
        phones = torch.randint(1, PHONES, (int(torch.randint(4, 10, (1,), generator=dice)),), generator=dice)
        durations = lengths[phones]
        mel = spectra[phones].repeat_interleave(durations, dim=0)
        made.append(
            {"phones": phones, "durations": durations, "mel": mel + 0.1 * torch.randn(mel.shape, generator=dice)}
        )
    return made


def collate(utterances: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return the utterances as a batch, padded with phone 0, whose duration is 0 frames."""
    padded = torch.nn.utils.rnn.pad_sequence
    return {key: padded([each[key] for each in utterances], batch_first=True) for key in utterances[0]}
