import numpy as np
import torch


def collate(features):
    size = max(len(each["labels"]) for each in features)
    input_ids = torch.zeros(len(features), size, dtype=torch.long)
    labels = torch.zeros(len(features), size, dtype=torch.long)
    for row, each in enumerate(features):
        input_ids[row, : len(each["input_ids"])] = torch.tensor(each["input_ids"])
        labels[row, : len(each["labels"])] = torch.tensor(each["labels"])
    return {"input_ids": input_ids, "labels": labels}


def collate_arrays(rows):
    text_labels = np.zeros((len(rows), 8), dtype=np.int64)
    for index, row in enumerate(rows):
        text_labels[index][: len(row)] = row
    return text_labels
