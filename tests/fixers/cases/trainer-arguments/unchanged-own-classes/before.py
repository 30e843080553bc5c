import transformers
from mine import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="steps", warmup_ratio=0.1)
trainer = Trainer(model=model, tokenizer=processor)
model = transformers.AutoModel.from_pretrained("m", torch_dtype="float16")
