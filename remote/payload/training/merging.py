"""`payload.pyz merge SPEC`: write a checkpoint of the base model with the adapter added to its weights."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from dataclasses import replace
from typing import Any, Dict

import torch
import transformers
from huggingface_hub import snapshot_download
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from peft.utils import ModulesToSaveWrapper

from remote.payload.files.atomic import sync_folder, write_atomic
from remote.payload.training.base_model import BaseModel, read_base
from remote.payload.training.evaluation_job import check_adapter, commits_of
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.job_process import read_spec, run_job
from remote.payload.training.quantization import round_to_nf4
from remote.payload.training.recordings import read_recordings
from remote.payload.training.revisions import pin_revisions
from remote.payload.training.run import fill_paths, model_source
from remote.payload.training.saving import file_digest
from remote.payload.training.stop_request import StopRequest
from remote.protocol.exits import ExitCode
from remote.protocol.merging import MergeSpec
from remote.protocol.quantities import size
from remote.protocol.training import TINY_PREFIX
from remote.protocol.values import dumps

RECORD = "halfstep-merged.json"
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".index.json")
log = logging.getLogger("halfstep")


def main(spec_argument: str) -> int:
    """Merge according to the spec and return the exit code."""

    def work(stop: StopRequest) -> None:
        del stop
        spec = read_spec(MergeSpec, spec_argument)
        training = replace(spec.training, paths=fill_paths(spec.training.paths, os.environ))
        merge(replace(spec, training=training))

    return run_job(work, "stopped; the next merge starts from the beginning")


def merge(spec: MergeSpec) -> None:
    """Write the merged checkpoint atomically.

    Raises TrainingFailed if the adapter or the base model is missing or changed, or if the base model is quantized and
    `dequantize` is False.
    """
    digest = check_adapter(spec.adapter, spec.adapter_sha256)
    training = pin_revisions(spec.training, commits_of(spec.adapter))
    if training.model.quantization is not None and not spec.dequantize:
        message = f"the adapter was trained on a base model in {training.model.quantization}, whose weights are rounded"
        raise TrainingFailed(
            "merge-quantized", message, hint="pipeline merge RUN --dequantize", exit_code=ExitCode.USAGE
        )
    tiny = training.model.id.startswith(TINY_PREFIX)
    recordings = read_recordings(training.data, training.data.split)[: training.data.samples] if tiny else []
    base = read_base(training.model, model_source(training, recordings))
    model = merged_model(base, spec)
    parent = os.path.dirname(spec.output)
    part = tempfile.mkdtemp(prefix=".merged-", dir=parent)
    try:
        model.save_pretrained(part)
        copy_other_files(base, part)
        files = {name: file_digest(os.path.join(part, name)) for name in sorted(os.listdir(part))}
        record: Dict[str, Any] = {"base": training.model, "adapter_sha256": digest, "files": files}
        write_atomic(os.path.join(part, RECORD), dumps(record) + b"\n")
        os.chmod(part, 0o755)
        if os.path.isdir(spec.output):
            shutil.rmtree(spec.output)
        os.replace(part, spec.output)
        sync_folder(parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    total = sum(os.path.getsize(os.path.join(spec.output, name)) for name in files)
    log.info("merged checkpoint in %s: %s, %s", spec.output, size(total), str(model.dtype).rpartition(".")[2])


def merged_model(base: BaseModel, spec: MergeSpec) -> Any:
    """Return the base model in its own precision, with the adapter added.

    The adapter is added to each weight in float32 and the sum is rounded once. All modules of the class are loaded,
    including modules that audio does not use, so that the checkpoint is complete.
    """
    hub_kwargs = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    model = getattr(transformers, base.family.class_name).from_pretrained(
        base.source, config=base.config, dtype="auto", **hub_kwargs
    )
    linears = {id(module): module.weight.dtype for module in model.modules() if isinstance(module, torch.nn.Linear)}
    if base.quantization is not None:
        round_to_nf4(model, base.family, spec.training.precision)
    adapted = PeftModel.from_pretrained(model, spec.adapter)
    with torch.no_grad():
        for module in adapted.modules():
            if isinstance(module, LoraLayer):
                _merge_layer(module)
            elif isinstance(module, ModulesToSaveWrapper):
                _round_as_before(module)
    merged = adapted.unload()
    for module in merged.modules():
        if id(module) in linears:
            module.to(linears[id(module)])
    return merged


def _merge_layer(layer: Any) -> None:
    layer.float()
    try:
        layer.merge(safe_merge=True)
    except ValueError as error:
        raise TrainingFailed("merge-broken", f"merged weights are not finite: {error}") from error


def _round_as_before(wrapper: Any) -> None:
    """Cast modules that were trained in full, which have float32 weights, back to the dtypes of the base model."""
    for trained in wrapper.modules_to_save.values():
        for parameter, original in zip(trained.parameters(), wrapper.original_module.parameters()):
            parameter.data = parameter.data.to(original.dtype)


def copy_other_files(base: BaseModel, folder: str) -> None:
    """Copy tokenizer, feature extractor and other files of the base model that contain no weights."""
    source = base.source
    if not os.path.isdir(source):
        patterns = [f"*{end}" for end in WEIGHTS]
        source = snapshot_download(source, revision=base.revision, ignore_patterns=[*patterns, "*/*"])
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if os.path.isfile(path) and not name.endswith(WEIGHTS) and not os.path.exists(os.path.join(folder, name)):
            shutil.copyfile(path, os.path.join(folder, name))
