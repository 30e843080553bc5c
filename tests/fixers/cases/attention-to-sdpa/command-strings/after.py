import os
import subprocess

name = "base"
subprocess.run("python train.py --attn_implementation sdpa", shell=True)
os.system(f"torchrun train.py --model {name} --use_flash_attn False")
