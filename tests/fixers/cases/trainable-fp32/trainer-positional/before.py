from transformers import Seq2SeqTrainer

trainer = Seq2SeqTrainer(model, fp16_args)
