from torch.nn.utils.rnn import pad_sequence

labels = pad_sequence([b["labels"] for b in batch], batch_first=True, padding_value=0)
loss = torch.nn.functional.ctc_loss(logits, labels, lengths, label_lengths)
