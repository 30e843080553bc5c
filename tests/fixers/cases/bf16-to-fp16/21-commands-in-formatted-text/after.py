import shlex
import subprocess

out = "runs"
command = f"""
accelerate launch --mixed_precision bf16 \
    train.py --bf16 True --out {out}
"""
subprocess.run(shlex.split(command.replace("\\", "")))
launch = f"torchrun train.py --fp16 True --torch_dtype float16 --out {out!r}"
subprocess.Popen(launch.split())
subprocess.check_call('python train.py --bf16 True --title "a\\b"', shell=True)
usage = "python train.py --bf16 True"
