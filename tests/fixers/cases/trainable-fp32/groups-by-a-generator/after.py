import torch


def grouped(net, decay):
    for name, parameter in net.named_parameters():
        yield {"params": [parameter], "weight_decay": 0.0 if "bias" in name else decay}


class Engine:
    def __init__(self, model):
        self.model = model.half()
        for parameter in self.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        self.optimizer = torch.optim.AdamW(self.groups(), lr=1e-4)

    def groups(self):
        yield {"params": [p for p in self.model.parameters() if p.requires_grad]}


student = load().half()
for parameter in student.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = torch.optim.AdamW(grouped(student, 0.01), lr=1e-4)
