import torch
from torch import nn

model = load().half()
criterion = nn.CrossEntropyLoss()


def run(training, held_out, classes):
    for batch, labels in training:
        logits = model(batch)
        loss = criterion(logits.view(-1, classes).float(), labels)
        optimizer.backward(loss)
    for batch, labels in held_out:
        with torch.no_grad():
            logits = model(batch)
        total = criterion(logits.view(-1, classes), labels)
        print(total.mean().item())
    with torch.inference_mode():
        last = model(batch)
    print(criterion(last, labels).item())
    again = model(batch)
    return criterion(again.float(), labels)
