import os
import typer

a = config.get("dtype", "float16")
b = os.environ.get("ACCELERATE_MIXED_PRECISION", "fp16")
c = kwargs.pop("name", "bf16")
d = settings.setdefault("precision", "fp16")
e = typer.Option("fp16", "--precision")
f = typer.Option("bf16", "--name")
parser.add_argument("--torch-dtype", nargs="?", const="float16", default="float16")
torch_dtype: str = field(default="float16")
torch_dtype = field(default="float16")
name = field(default="bfloat16")
config["dtype"] = "float16"
config["name"] = "bf16"
self.compute_dtype = "float16"
g = dict(name="bf16", amp_type="fp16")


def build(precision="fp16", /, name="bf16", *, mixed_precision="fp16", other=None):
    pass
