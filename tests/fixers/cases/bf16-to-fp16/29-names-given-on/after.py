from accelerate import Accelerator

mp = "fp16"
accelerator = Accelerator(mixed_precision=mp)
told = "bf16"
other = Accelerator(mixed_precision=told)
print(told)
unused = "bf16"
parser.add_argument("--amp", default="fp16")
parser.add_argument("--tf32", default=False)
parser.add_argument("--tf32-runs", default=True)
