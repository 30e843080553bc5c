"""The model card of an adapter, as the hub shows it: base model, data, precision, scores, and how to load it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.report.model import RunReport
from remote.protocol.dataclass import dataclass, field
from remote.protocol.evaluation import ADAPTER, EvaluationResult
from remote.protocol.text import safe_text

MAX_LINE = 20_000

SEQUENCES = "AutoModelForSequenceClassification"
AUTO_CLASSES = {
    "CAUSAL_LM": "AutoModelForCausalLM",
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
    "SEQ_CLS": SEQUENCES,
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
    "FEATURE_EXTRACTION": "AutoModel",
}
"""The transformers class that loads the base model, for each PEFT task type. Without a task type, it is AutoModel.

With a class of another task, peft finds no weights of the head in the adapter, or loads the base model unchanged.
"""
WITH_LABELS = ("SEQ_CLS", "TOKEN_CLS")
AUDIO_ENCODERS = (
    "wav2vec2",
    "wav2vec2_bert",
    "wav2vec2_conformer",
    "hubert",
    "wavlm",
    "data2vec_audio",
    "unispeech",
    "sew",
)
"""Models that classify recordings, by the name of their encoder in the names of the weights."""
HEAD = re.compile(r"(?:^|\.)(?:classifier|score)(?:\.(?:out_proj|dense_2|\d+))?\.weight$")
"""The last layer of a classifier, as peft saves it with the adapter (`modules_to_save`)."""
BUILT_IN = "AutoModelForMultimodalLM"
"""The class of the base model, if an adapter of the built-in trainer does not record it."""

UNNAMED = "BASE_MODEL"
"""The base model in the lines that load an adapter whose settings do not name its base model."""


@dataclass(frozen=True)
class CardFacts:
    """The content of a model card.

    `base` is a hub id, a path, or "" if it is unknown, `datasets` are hub ids, and `settings` are the LoRA settings.
    `place` is the repository or the folder of the adapter. `built_in` is True if the built-in trainer trained the
    adapter. `shapes` are the shapes of the adapter's weights by name.
    """

    place: str
    title: str
    base: str
    revision: str | None
    datasets: tuple[str, ...]
    settings: Mapping[str, Any]
    built_in: bool
    report: RunReport | None = None
    evaluation: EvaluationResult | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def loading_lines(facts: CardFacts) -> tuple[str, ...]:
    """Return the lines of Python code that load the base model and the adapter with transformers and peft only."""
    name = _base_class(facts)
    revision = f", revision={json.dumps(facts.revision)}" if facts.revision else ""
    base = json.dumps(facts.base or UNNAMED, ensure_ascii=False)
    labels = f", num_labels={count}" if (count := _label_count(facts)) else ""
    loaded = f"{name}.from_pretrained({base}{revision}{labels})"
    return (
        "from peft import PeftModel",
        f"from transformers import {name}",
        f"model = PeftModel.from_pretrained({loaded}, {json.dumps(facts.place)})",
    )


def _base_class(facts: CardFacts) -> str:
    """Return the model class that the adapter's settings name, else the class for the task type."""
    recorded = facts.settings.get("auto_mapping")
    if isinstance(recorded, Mapping) and str(recorded.get("parent_library")).split(".")[0] == "transformers":
        name = str(recorded.get("base_model_class"))
        if name.isidentifier():
            return name
    if facts.built_in:
        return BUILT_IN
    name = AUTO_CLASSES.get(str(facts.settings.get("task_type")), "AutoModel")
    parts = {part for weight in facts.shapes for part in weight.split(".")}
    return "AutoModelForAudioClassification" if name == SEQUENCES and parts.intersection(AUDIO_ENCODERS) else name


def _label_count(facts: CardFacts) -> int | None:
    """Return the number of outputs of the classifier that was saved with the adapter, or None without a classifier.

    The base model would get a classifier with two outputs, into which peft cannot load the weights.
    """
    if facts.settings.get("task_type") not in WITH_LABELS:
        return None
    rows = [shape[0] for name, shape in facts.shapes.items() if HEAD.search(name) and len(shape) == 2]
    return rows[0] if len(set(rows)) == 1 else None


def render_card(facts: CardFacts) -> str:
    """Return the card as Markdown with the hub's YAML header.

    Invisible characters are escaped; YAML and Python read the escapes as the original characters.
    """
    return "".join(f"{safe_text(line, max_line=MAX_LINE)}\n" for line in _lines(facts))


def _lines(facts: CardFacts) -> Iterator[str]:
    yield "---"
    if facts.base:
        yield f"base_model: {json.dumps(facts.base, ensure_ascii=False)}"
    yield "library_name: peft"
    yield "tags: [lora, halfstep]"
    if facts.datasets:
        yield f"datasets: {json.dumps(facts.datasets)}"
    yield "---"
    yield f"# {_plain(facts.title)}"
    yield ""
    revision = f" at revision {_code(facts.revision)}" if facts.revision else ""
    base = _code(facts.base) if facts.base else "a base model that its settings do not name"
    yield f"A LoRA adapter of {base}{revision}, trained with halfstep."
    yield ""
    yield "```python"
    yield from loading_lines(facts)
    yield "```"
    yield ""
    yield "## Training"
    yield ""
    yield from _table(("setting", "value"), _training(facts))
    if facts.evaluation is not None:
        yield from _scores(facts.evaluation)


def _training(facts: CardFacts) -> Iterator[tuple[str, str]]:
    for key, label in (("r", "rank"), ("lora_alpha", "alpha"), ("lora_dropout", "dropout")):
        if facts.settings.get(key) is not None:
            yield label, str(facts.settings[key])
    if facts.datasets:
        yield "data", ", ".join(facts.datasets)
    report = facts.report
    if report is None:
        return
    yield "precision", report.precision.partition(":")[0]
    yield "card", report.card
    if report.step is not None:
        yield "optimizer steps", str(report.step)
    if report.version:
        yield "halfstep", report.version
    yield from ((name, value) for name, value in report.environment if name in ("torch", "transformers", "peft"))


def _scores(result: EvaluationResult) -> Iterator[str]:
    scores = next((one for one in result.scores if one.model == ADAPTER), None)
    if scores is None:
        return
    yield ""
    yield "## Evaluation"
    yield ""
    data = f"{_code(result.data)}, split {_code(result.split)}, {_plain(result.decoding)} decoding"
    yield f"{result.recordings} recordings of {data}."
    yield ""
    rows = [
        (name, f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}" if None not in (one.low, one.high) else "")
        for name, one in sorted(scores.metrics.items())
        if one.value is not None
    ]
    yield from _table(("metric", "value", "95 % interval"), rows)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, str, str]]) -> Iterator[str]:
    for cells in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Return the text as literal Markdown. A value of the host cannot add a link, image, HTML or second line."""
    words = re.sub(r"([\\`*\[\]<>|~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)", r"\\", words)


def _code(text: str) -> str:
    """Return a code span with the text."""
    words = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    return f"{fence}{words}{fence}" if len(fence) == 1 else f"{fence} {words} {fence}"
