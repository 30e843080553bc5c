from torch.nn.utils.rnn import pad_sequence


class Collator:
    def __call__(self, batch):
        labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=self.tokenizer.pad_token_id)
        decoder_attention_mask = labels.ne(self.tokenizer.pad_token_id)
        decoder_input_ids = shift_right(labels)
        labels = labels.masked_fill(~decoder_attention_mask, -100)
        return {"labels": labels, "decoder_attention_mask": decoder_attention_mask, "decoder_input_ids": decoder_input_ids}


def loss(logits, labels):
    mask = labels != 0
    return (cross_entropy(logits, labels) * mask).sum() / mask.sum()
