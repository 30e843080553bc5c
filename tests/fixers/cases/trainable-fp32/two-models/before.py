import torch


class Distiller:
    def __init__(self, student, router):
        self.student = student.half()
        self.router = router.half()
        self.optimizer = torch.optim.AdamW(list(self.student.parameters()) + list(self.router.parameters()))
