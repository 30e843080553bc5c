from accelerate import Accelerator

mp = "bf16"
accelerator = Accelerator(mixed_precision=mp)
told = "bf16"
other = Accelerator(mixed_precision=told)
print(told)
unused = "bf16"
parser.add_argument("--amp", default="bf16")
parser.add_argument("--tf32", default=True)
parser.add_argument("--tf32-runs", default=True)
