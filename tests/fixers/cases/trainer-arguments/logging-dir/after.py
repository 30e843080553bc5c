import os
from pathlib import Path

from transformers import Seq2SeqTrainingArguments, TrainingArguments

os.environ.setdefault("TENSORBOARD_LOGGING_DIR", f"{root}/logs")
first = TrainingArguments("out", seed=1)


def arguments(options, root):
    if options.quiet:
        return TrainingArguments("out")
    more = {"output_dir": "out"}
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", os.path.join(root, "logs"))
    TrainingArguments(**more)
    if options.logging_dir:
        os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(options.logging_dir))
    return Seq2SeqTrainingArguments(
        output_dir=options.output_dir,
        learning_rate=1e-4,
    )


os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(Path("logs") / "run"))
second = TrainingArguments()
os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(folder))
third = TrainingArguments(**dict(output_dir="out"))
