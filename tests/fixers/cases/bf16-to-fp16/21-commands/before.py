import os
import subprocess

subprocess.run(["accelerate", "launch", "--mixed_precision", "bf16", "train.py", "--bf16", "True"])
subprocess.run(["torchrun", "train.py", "--torch_dtype", "bfloat16", "++model.precision=bf16"])
os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16"
os.environ.setdefault("ACCELERATE_MIXED_PRECISION", "bf16")
names = ["--bf16"]
parser.add_argument("--bf16", action="store_true")
