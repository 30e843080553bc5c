import torch


class Runner:
    def __init__(self, args):
        self.args = args
        self.prepare()
        for parameter in self.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.place()

    def prepare(self):
        self.model = load().half()

    def place(self):
        self.model = self.model.to(self.args.device, dtype=getattr(torch, self.args.dtype))
        for parameter in self.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
