import os as system

import trl
from transformers import Seq2SeqTrainer


class Weighted(Seq2SeqTrainer):
    def __init__(self, weight, **given):
        super().__init__(**given)
        self.weight = weight


class Twice(Weighted):
    pass


class Job:
    def __init__(self, model, args):
        if args.seq2seq:
            self.trainer = Twice(2.0, model=model, args=args)
        else:
            self.trainer: trl.SFTTrainer = trl.SFTTrainer(model=model, args=args)

    def fit(self):
        self.trainer.train(ignore_keys_for_eval=["past_key_values"],)


def main():
    Job(*parse()).fit()


main()
