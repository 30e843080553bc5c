import torch

a = torch.cuda.is_bf16_supported(including_emulation=False)
b = mine.is_bf16_supported()  # torch.cuda.is_bf16_supported()

if torch.cuda.is_bf16_supported():
    print("=" * 20)
    print("Your GPU supports bfloat16: use --bf16")

if torch.cuda.is_available() and torch.cuda.is_bf16_supported():
    autocast = functools.partial(torch.amp.autocast, "cuda", dtype=torch.bfloat16)
else:
    autocast = contextlib.nullcontext


def speak(model, text):
    with torch.inference_mode(), autocast():
        return model(text)
