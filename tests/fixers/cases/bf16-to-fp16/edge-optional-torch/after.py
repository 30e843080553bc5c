try:
    import torch
except ImportError:
    torch = None

x = torch.float16
