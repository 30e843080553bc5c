import os
import subprocess

subprocess.run("accelerate launch --mixed_precision bf16 train.py", shell=True)
os.system("python train.py --bf16 True")
subprocess.run(["torchrun", "train.py", "--torch_dtype=bfloat16", "--dtype=float32"])
print("python train.py --bf16 True")
