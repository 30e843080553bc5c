import os
import typer

a = config.get("dtype", "bfloat16")
b = os.environ.get("ACCELERATE_MIXED_PRECISION", "bf16")
c = kwargs.pop("name", "bf16")
d = settings.setdefault("precision", "bf16")
e = typer.Option("bf16", "--precision")
f = typer.Option("bf16", "--name")
parser.add_argument("--torch-dtype", nargs="?", const="bfloat16", default="bfloat16")
torch_dtype: str = field(default="bfloat16")
torch_dtype = field(default="bfloat16")
name = field(default="bfloat16")
config["dtype"] = "bfloat16"
config["name"] = "bf16"
self.compute_dtype = "bfloat16"
g = dict(name="bf16", amp_type="bf16")


def build(precision="bf16", /, name="bf16", *, mixed_precision="bf16", other=None):
    pass
