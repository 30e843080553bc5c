x = torch.bfloat16
