import torch
import torch.nn.functional as F

teacher.half()
T = 2.0


def distil(student_logits, teacher_logits, temperature):
    s = F.log_softmax(student_logits.float() / T, dim=-1)
    t = F.softmax(teacher_logits.float() / temperature, dim=-1)
    return F.kl_div(s, t, reduction="batchmean") * T * T
