from torch.nn.utils.rnn import pad_sequence
from transformers.models.bart.modeling_bart import shift_tokens_right


def collate(batch):
    labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=0)
    return {"labels": labels, "decoder_input_ids": shift_right(labels)}


def collate_by_library(batch):
    labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=0)
    labels[:, :4] = -100
    return {"labels": labels, "decoder_input_ids": shift_tokens_right(labels, 0, 1)}
