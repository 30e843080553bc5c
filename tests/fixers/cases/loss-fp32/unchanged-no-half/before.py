import torch.nn.functional as F

loss = F.mse_loss(x, y)
