import os
import fire
from trl import DPOTrainer


def train(beta=0.1):
    DPOTrainer(model=model, args=args(beta)).train(resume_from_checkpoint=os.environ.get("HALFSTEP_RESUME_FROM") or None)


fire.Fire(train)
