python t.py ++model.precision=bf16 trainer.precision=bf16-mixed trainer.precision=bf16 model.dtype=bfloat16 +train.bf16=true name=bf16 TRAIN_PRECISION=bf16
