import transformers
from accelerate.utils import Thing
from dataclasses import dataclass, field, replace


@dataclass
class Own:
    bf16: bool = True
    fp16: bool = field(default=False)


@dataclass
class OnlyOne:
    bf16: bool = False


def both(*, bf16=None, fp16=None):
    pass


a = Own(bf16=True)
b = OnlyOne(bf16=True)
c = both(bf16=flag)
d = Thing(bf16=True, tf32=True)
e = transformers.TrainingArguments("o", bf16=args["bf16"], fp16=args.get("fp16"))
f = transformers.TrainingArguments("o", bf16=True if x else False)
g = replace(args, bf16=True)
h = {"bf16": args.bf16, "tf32": True}
i = {"bf16": True, "fp16": False, **rest}
args.bf16_full_eval = True
args.tf32 = True
settings["bf16_full_eval"] = True
first = second = True
args.bf16 = False
config["fp16"] = True
