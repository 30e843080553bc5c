import torch
from torch.nn.utils.rnn import pad_sequence

labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=-100)
mask = pad_sequence([b["label_mask"] for b in batch], batch_first=True, padding_value=0)
mask = pad_sequence([b["attention_mask"] for b in batch], batch_first=True, padding_value=0)
counts = torch.full((num_labels,), 0)
more = pad_sequence(labels, padding_value=IGNORE)
rest = labels + [5] * n
options = pad_sequence(labels, **options)
