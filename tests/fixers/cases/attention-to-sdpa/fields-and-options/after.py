import argparse
from dataclasses import dataclass, field


@dataclass
class Arguments:
    use_flash_attn: bool = False
    use_flash_attention: bool = field(default=False)
    flash_attn_rows: bool = True


parser = argparse.ArgumentParser()
parser.add_argument("--attn", default="sdpa", choices=["eager", "flash_attention_2"])
parser.add_argument("--use-flash-attn", action="store_true", default=False)
parser.add_argument("--use-cache", help="without use_flash_attn", default=True)
args = parser.parse_args([])
attn = "eager" if args.attn else "eager"


def load(name, use_flash_attention_2=False, use_cache=True):
    return build(use_flash_attention_2, getattr(args, "use_flash_attn", False))


model = load("m")
