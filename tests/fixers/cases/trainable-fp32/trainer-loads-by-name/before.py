from trl import SFTConfig, SFTTrainer

name = "org/model"
first = SFTTrainer(model=name, args=SFTConfig(fp16=True))
second = SFTTrainer(model="org/model", args=SFTConfig(fp16=True))
third = SFTTrainer(model=args.model_path, args=SFTConfig(fp16=True))
