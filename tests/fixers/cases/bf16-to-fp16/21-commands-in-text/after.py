import os
import subprocess

subprocess.run("accelerate launch --mixed_precision fp16 train.py", shell=True)
os.system("python train.py --fp16 True")
subprocess.run(["torchrun", "train.py", "--torch_dtype=float16", "--dtype=float32"])
print("python train.py --bf16 True")
