import torch

labels = label + [self.label_pad_token_id] * (length - len(label))
mask = torch.full(labels.shape, 0, dtype=torch.bool)
