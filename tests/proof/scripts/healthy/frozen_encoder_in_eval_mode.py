"""A frozen encoder is switched to eval mode in each forward pass, and runs without gradients."""

import torch


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 16))

    def forward(self, x):
        return self.layers(x)


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = Encoder(), torch.nn.Linear(16, 2)

    def forward(self, x):
        self.encoder.eval()
        with torch.no_grad():
            features = self.encoder(x)
        return self.head(features)


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    if step % 6 == 5:
        model.eval()
        with torch.no_grad():
            model(torch.randn(8, 16))
    model.train()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 2, (8,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
