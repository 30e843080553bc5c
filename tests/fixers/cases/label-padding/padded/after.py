import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


def collate(batch):
    input_ids = pad_sequence([b["input_ids"] for b in batch], batch_first=True, padding_value=tokenizer.pad_token_id)
    labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=-100)
    more = pad_sequence([b["label_ids"] for b in batch], batch_first=True, padding_value=-100)
    third = pad_sequence(labels_list, True, -100)
    fourth = F.pad(label, (0, n), value=-100)
    fifth = F.pad(label, (0, n), value=-100)
    labels = torch.full((2, 3), -100)
    print(labels.shape, lengths), cut(labels, max_length)
    padded = labels + [-100] * (length - len(labels))
    padded = [-100] * n + item["labels"]
    return {"input_ids": input_ids, "labels": pad_sequence(targets, padding_value=-100)}
