import torch
print "torch", torch.bfloat16
