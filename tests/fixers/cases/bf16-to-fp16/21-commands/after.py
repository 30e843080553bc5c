import os
import subprocess

subprocess.run(["accelerate", "launch", "--mixed_precision", "fp16", "train.py", "--fp16", "True"])
subprocess.run(["torchrun", "train.py", "--torch_dtype", "float16", "++model.precision=fp16"])
os.environ["ACCELERATE_MIXED_PRECISION"] = "fp16"
os.environ.setdefault("ACCELERATE_MIXED_PRECISION", "fp16")
names = ["--bf16"]
parser.add_argument("--bf16", "--fp16", action="store_true")
