import torch
from sklearn.preprocessing import StandardScaler
from torch.cuda.amp import autocast


class Loop:
    def __init__(self, model, config):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = StandardScaler()
        self.use_amp = config.use_amp

    def train(self, batch):
        with autocast(enabled=True):
            loss = self.model(batch)
        self.back(loss)
        self.optimizer.step()

    def back(self, loss):
        loss.sum().backward(retain_graph=True)
