import torch
from torch.nn.utils.rnn import pad_sequence


def by_length(batch, lengths):
    labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=0)
    padded = torch.arange(labels.size(1)) >= lengths[:, None]
    return embed(labels), labels.masked_fill(padded, -100)


def by_index(batch, mask):
    labels = torch.full((2, 3), pad_token_id)
    labels[mask] = -100
    return labels
