import torch
import torch.nn.functional as F

model = model.to(torch.float16)
prediction, logits, student, teacher, x = model(batch["x"])
a = F.mse_loss(prediction.float(), target.float())
b = F.huber_loss(prediction[:, 0].float(), batch["y"].float(), delta=1.0)
c = F.cross_entropy(logits.view(-1, 10).float(), labels.view(-1), ignore_index=-100)
d = F.l1_loss((a - b).float(), target=c.float())
e = F.kl_div(F.log_softmax((student / T).float(), dim=-1), ((teacher / T).float()).softmax(dim=-1), reduction="batchmean")
f = torch.nn.functional.smooth_l1_loss(input=x.float(), target=y.float())
g = F.mse_loss(((a + b).float()), 0.5)
