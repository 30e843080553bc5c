from transformers import Seq2SeqTrainer

for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
trainer = Seq2SeqTrainer(model, fp16_args)
