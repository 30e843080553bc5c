import sys

from transformers import Trainer
from transformers.trainer_utils import get_last_checkpoint

trainer = Trainer(model=model, args=args)
if "--again" in sys.argv and get_last_checkpoint(args.output_dir):
    trainer.train(resume_from_checkpoint=True)
else:
    trainer.train()
