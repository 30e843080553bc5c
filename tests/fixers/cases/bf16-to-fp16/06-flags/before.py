from transformers import TrainingArguments

a = TrainingArguments("o", bf16=True, bf16_full_eval=True)
b = TrainingArguments("o", bf16=True, fp16=False)
c = TrainingArguments("o", bf16=args.bf16)
d = TrainingArguments("o", bf16=args.bf16, fp16=args.fp16)
e = TrainingArguments("o", **{"bf16": True})
f = TrainingArguments("o", bf16=True, fp16=True)
g = dict(bf16=True, fp16=None)
h = TrainingArguments("o", bf16=args.bf16, fp16=False)
i = TrainingArguments("o", bf16=True, fp16=args.fp16)
j = TrainingArguments("o", bf16=a and b, fp16=not a)
