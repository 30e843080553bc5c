from accelerate import Accelerator

a = Accelerator(mixed_precision="bf16")
b = Accelerator(mixed_precision="bf16" if args.bf16 else "no")
c = Accelerator(mixed_precision="bf16" if args.bf16 else "fp16")
d = Accelerator(mixed_precision="bf16" if args.half else "no")
