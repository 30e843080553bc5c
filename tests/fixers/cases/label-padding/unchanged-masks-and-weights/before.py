import torch.nn.functional as F


def loss(model, input_ids, labels):
    logits = model(input_ids=input_ids).logits
    pad_mask = F.pad(labels, (1, 0), value=0)
    token_weights = F.pad(labels, (1, 0), value=0)
    return F.cross_entropy(logits, input_ids, reduction="none") * pad_mask * token_weights
