import torch


class Runner:
    def __init__(self, args):
        self.args = args
        self.prepare()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.place()

    def prepare(self):
        self.model = load().half()

    def place(self):
        self.model = self.model.to(self.args.device, dtype=getattr(torch, self.args.dtype))
