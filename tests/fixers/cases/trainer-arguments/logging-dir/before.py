import os
from pathlib import Path

from transformers import Seq2SeqTrainingArguments, TrainingArguments

first = TrainingArguments("out", logging_dir=f"{root}/logs", seed=1)


def arguments(options, root):
    if options.quiet:
        return TrainingArguments("out", logging_dir=None)
    more = {"output_dir": "out"}
    more["logging_dir"] = os.path.join(root, "logs")
    TrainingArguments(**more)
    return Seq2SeqTrainingArguments(
        output_dir=options.output_dir,
        logging_dir=options.logging_dir,
        learning_rate=1e-4,
    )


second = TrainingArguments(logging_dir=Path("logs") / "run")
third = TrainingArguments(**dict(output_dir="out", logging_dir=str(folder)))
