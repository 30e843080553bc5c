from transformers import TrainingArguments

a = TrainingArguments("o", fp16=True, fp16_full_eval=True)
b = TrainingArguments("o", bf16=False, fp16=True)
c = TrainingArguments("o", fp16=args.bf16)
d = TrainingArguments("o", bf16=args.bf16, fp16=args.fp16)
e = TrainingArguments("o", **{"fp16": True})
f = TrainingArguments("o", bf16=False, fp16=True)
g = dict(bf16=False, fp16=True)
h = TrainingArguments("o", bf16=False, fp16=args.bf16)
i = TrainingArguments("o", bf16=False, fp16=True)
j = TrainingArguments("o", bf16=False, fp16=(not a) or (a and b))
