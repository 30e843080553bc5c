import torch


class Loop:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())

    def step(self, x):
        with torch.autocast("cuda" if torch.cuda.is_available() else "cpu", dtype=torch.float16):
            loss = self.model(x)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
