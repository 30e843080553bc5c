python t.py ++model.precision=fp16 trainer.precision=16-mixed trainer.precision=16 model.dtype=float16 +train.fp16=true name=bf16 TRAIN_PRECISION=bf16
