import transformers
from accelerate.utils import Thing
from dataclasses import dataclass, field, replace


@dataclass
class Own:
    bf16: bool = False
    fp16: bool = field(default=True)


@dataclass
class OnlyOne:
    bf16: bool = False


def both(*, bf16=None, fp16=None):
    pass


a = Own(fp16=True)
b = OnlyOne(bf16=True)
c = both(fp16=flag)
d = Thing(fp16=True, tf32=False)
e = transformers.TrainingArguments("o", bf16=False, fp16=args.get("fp16") or args["bf16"])
f = transformers.TrainingArguments("o", fp16=True if x else False)
g = replace(args, fp16=True)
h = {"bf16": args.bf16, "tf32": False}
i = {"bf16": False, "fp16": True, **rest}
args.fp16_full_eval = True
args.tf32 = True
settings["fp16_full_eval"] = True
first = second = True
args.bf16 = False
config["fp16"] = True
