from torch.nn.utils.rnn import pad_sequence


def loss(objective, predicted, labels):
    # nn.CrossEntropyLoss expects (N, class) and (N,)
    labels = pad_sequence(labels, batch_first=True, padding_value=0)
    return objective(predicted, labels)
