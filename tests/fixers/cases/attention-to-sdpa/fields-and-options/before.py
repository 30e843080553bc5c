import argparse
from dataclasses import dataclass, field


@dataclass
class Arguments:
    use_flash_attn: bool = True
    use_flash_attention: bool = field(default=True)
    flash_attn_rows: bool = True


parser = argparse.ArgumentParser()
parser.add_argument("--attn", default="flash_attention_2", choices=["eager", "flash_attention_2"])
parser.add_argument("--use-flash-attn", action="store_true", default=True)
parser.add_argument("--use-cache", help="without use_flash_attn", default=True)
args = parser.parse_args([])
attn = "flash_attention_2" if args.attn else "eager"


def load(name, use_flash_attention_2=True, use_cache=True):
    return build(use_flash_attention_2, getattr(args, "use_flash_attn", True))


model = load("m")
