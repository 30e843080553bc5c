from torch.nn.utils.rnn import pad_sequence

labels = pad_sequence(labels, padding_value=0)
loss = CrossEntropyLoss(ignore_index=0)
