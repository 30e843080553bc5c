import argparse
import os
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--use_flash_attn", action="store_true")
os.environ["FLASH_ATTENTION_FORCE_BUILD"] = "TRUE"
os.environ["USE_FLASH_ATTENTION"] = "0"
subprocess.run("pip install flash_attn --no-build-isolation", shell=True)
subprocess.run(["pip", "install", "flash-attn"])
print("run with --attn_implementation flash_attention_2")
if os.environ["ATTN_IMPLEMENTATION"] == "flash_attention_2":
    raise SystemExit("not on this card")
