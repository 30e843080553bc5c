import torch


class Distiller:
    def __init__(self, student, router):
        self.student = student.half()
        self.router = router.half()
        for parameter in self.student.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        for parameter in self.router.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
        self.optimizer = torch.optim.AdamW(list(self.student.parameters()) + list(self.router.parameters()))
