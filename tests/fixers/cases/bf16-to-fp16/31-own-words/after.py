import argparse

import click
import torch
import typer

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", "--fp16", action="store_true", help="bf16 autocast")
parser.add_argument("--bf16_full_eval", action="store_true")
parser.add_argument("--fp16_full_eval", action="store_true")
parser.add_argument("--use-bf16", action=argparse.BooleanOptionalAction)
parser.add_argument("--dtype", choices=['bf16', 'fp16', 'fp32'])
parser.add_argument("--name", choices=["bf16", "fp32"])
args = parser.parse_args()


@click.option("--bf16", "--fp16", is_flag=True)
@click.option("--precision", type=click.Choice(["bfloat16", "float16", "float32"]))
def main(bf16, precision, other=typer.Option(False, "--bf16", "--fp16")):
    pass


dtype = torch.float16 if args.bf16 else torch.float32
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[args.dtype]
WORDS = {
    'fp16': "float16", 'bf16': "bfloat16",  # A100
    'fp32': "float32",
}
BOTH = {"bf16": torch.bfloat16, "fp16": torch.float16}
BY_CARD = {"bf16": torch.bfloat16} if torch.cuda.is_bf16_supported() else {}
STEPS = {"bf16": 4}
