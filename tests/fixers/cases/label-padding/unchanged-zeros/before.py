import torch


def collate(features, tokenizer):
    labels = torch.zeros(len(features), dtype=torch.long)
    for row, each in enumerate(features):
        labels[row] = each["label"]
    frame_labels = torch.zeros(len(features), 8)
    frame_labels[0, :4] = 1.0
    mask_labels = torch.zeros(2, 2, dtype=torch.bool)
    mask_labels[0, :1] = True
    return {"input_ids": features, "labels": labels}
