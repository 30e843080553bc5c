"""Where torch is opened to look inside: its step hooks, loss scaler, backward, attention, cross entropy, module calls.

Each seam calls the original with the same arguments and hands its result on untouched.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from .opening import Training, is_wanted, replace
from .recorder import Recorder
from .scaled import kind_of
from .scaler_seams import watch_scaler

OPENED = frozenset(
    {
        "torch",
        "torch.amp",
        "torch.amp.autocast_mode",
        "torch.amp.grad_scaler",
        "torch.nn.modules.module",
        "torch.nn.utils",
        "torch.nn.utils.clip_grad",
        "torch.optim.lr_scheduler",
        "torch.optim.optimizer",
        "torch.utils.checkpoint",
    }
)
"""The modules that are opened here, save those that torch itself cannot reload: opened again after a reload."""
CTC = ("log_probs", "targets", "input_lengths", "target_lengths")
UNIGNORING = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "poisson_nll_loss",
    "soft_margin_loss",
    "multilabel_soft_margin_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "ctc_loss",
)
"""Losses of torch.nn.functional that have no ignore_index."""


def install(recorder: Recorder, training: Training) -> None:
    """`recorder` is called for what torch, already imported, does from now on; what is in place already stays."""
    torch = sys.modules["torch"]
    _watch_optimizers(torch, recorder, training)
    watch_scaler(torch, recorder, training)
    _watch_backward(torch, recorder, training)
    _watch_clipping(torch, recorder)
    _watch_schedulers(torch, recorder)
    if recorder.wants_modules:
        _watch_autocast(torch, recorder, training)
        _watch_functions(torch, recorder)
        _watch_checkpointing(torch, recorder)
        _watch_modules(torch, recorder, training)


def _restart_in_fork(recorder: Recorder, training: Training) -> None:
    """A forked child that uses a model has a record of its own from then on."""
    if os.getpid() != training.pid:
        training.pid = os.getpid()
        recorder.restart()


def _found_inf(optimizer: Any) -> bool:
    # Fused optimizers are called in every case and skip inside their kernel, by this attribute.
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(float(found))


def _watch_optimizers(torch: Any, recorder: Recorder, training: Training) -> None:
    # torch.optim deletes the name of this module of its own from itself.
    optimizers = sys.modules["torch.optim.optimizer"]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.current is None:
            recorder.attempt(optimizer, None)
        if not _found_inf(optimizer):
            recorder.applying(optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.current is optimizer:
            training.current_applied = not _found_inf(optimizer)
        elif training.current is None:
            recorder.applied(optimizer, None, None, skipped=False)

    training.optimizer_hooks.renew(
        optimizers.register_optimizer_step_pre_hook(before),
        optimizers.register_optimizer_step_post_hook(after),
    )

    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            recorder.built(self)

        return build

    replace(optimizers.Optimizer, "__init__", init)


def _watch_autocast(torch: Any, recorder: Recorder, training: Training) -> None:
    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            wanted = is_wanted(original, self, args, kwargs)
            # A model that computes a part of itself in float32 says nothing of the training around it.
            if wanted or training.module_depth == 0:
                recorder.asked("autocast", wanted, bool(getattr(self, "_enabled", True)))

        return build

    replace(torch.autocast, "__init__", init)


def _watch_backward(torch: Any, recorder: Recorder, training: Training) -> None:
    def backward(original: Any) -> Any:
        def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            _restart_in_fork(recorder, training)
            root = tensors if isinstance(tensors, torch.Tensor) else None
            if training.backward_depth == 0 and root is not None and root.numel() == 1:
                loss = training.scaled_from if root is training.scaled_to else root
                recorder.backward(root, loss)
                training.scaled_from = training.scaled_to = None
            outermost = training.backward_depth == 0
            if outermost:
                training.module_depth = 0
                recorder.accumulating()
            kind = kind_of(tensors, args, kwargs) if outermost else ""
            training.backward_depth += 1
            try:
                result = original(tensors, *args, **kwargs)
            finally:
                training.backward_depth -= 1
            if outermost:
                recorder.accumulated(kind)
            return result

        return run_backward

    replace(torch.autograd, "backward", backward)


def _watch_clipping(torch: Any, recorder: Recorder) -> None:
    def clip(original: Any) -> Any:
        def clipping(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            # A generator can be read once.
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            recorder.clipping(given)
            result = original(given, *args, **kwargs)
            recorder.clipped(given, result, args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value")))
            return result

        return clipping

    home = sys.modules["torch.nn.utils.clip_grad"]
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        replace(home, name, clip)
        setattr(torch.nn.utils, name, getattr(home, name))


def _watch_schedulers(torch: Any, recorder: Recorder) -> None:
    schedulers = sys.modules["torch.optim.lr_scheduler"]

    def step(original: Any) -> Any:
        def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            recorder.scheduled(self)
            return result

        return stepping

    replace(getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler, "step", step)


def _watch_functions(torch: Any, recorder: Recorder) -> None:
    functional = torch.nn.functional

    def attend(original: Any) -> Any:
        def attending(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            if not _compiling(torch):
                names = ("attn_mask", "dropout_p", "is_causal")
                recorder.attention(query, key, value, {**dict(zip(names, args)), **kwargs})
            return original(query, key, value, *args, **kwargs)

        return attending

    def entropy(original: Any) -> Any:
        def measuring(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if not _compiling(torch):
                recorder.cross_entropy(input, target, int(kwargs.get("ignore_index", -100)))
            return original(input, target, *args, **kwargs)

        return measuring

    def plain(name: str) -> Callable[[Any], Any]:
        def watch_loss(original: Any) -> Any:
            def measuring(*args: Any, **kwargs: Any) -> Any:
                if not _compiling(torch):
                    given = {**dict(zip(CTC if name == "ctc_loss" else ("input", "target"), args)), **kwargs}
                    target = given.get("target", given.get("targets"))
                    recorder.loss(name, target, given.get("target_lengths"))
                return original(*args, **kwargs)

            return measuring

        return watch_loss

    for name in UNIGNORING:
        replace(functional, name, plain(name))
    replace(functional, "scaled_dot_product_attention", attend)
    replace(functional, "cross_entropy", entropy)


def _compiling(torch: Any) -> bool:
    compiler = getattr(torch, "compiler", None)
    return bool(compiler is not None and compiler.is_compiling())


def _watch_checkpointing(torch: Any, recorder: Recorder) -> None:
    checkpointing = __import__("torch.utils.checkpoint", fromlist=["checkpoint"])

    def checkpoint(original: Any) -> Any:
        def checkpoint_call(function: Any, *args: Any, **kwargs: Any) -> Any:
            # torch's own default is reentrant until it demands the argument.
            recorder.checkpointed(kwargs.get("use_reentrant") in (None, True), args)
            return original(function, *args, **kwargs)

        return checkpoint_call

    replace(checkpointing, "checkpoint", checkpoint)


def _watch_modules(torch: Any, recorder: Recorder, training: Training) -> None:
    """Roots are told by depth: a module that is called while no other is, and not by a recomputation in backward."""
    modules = sys.modules["torch.nn.modules.module"]

    def before(module: Any, args: Any) -> None:
        training.module_depth += 1
        if training.module_depth == 1:
            _restart_in_fork(recorder, training)
        if training.module_depth == 1 and training.backward_depth == 0 and torch.is_grad_enabled():
            recorder.forward(module)

    def after(module: Any, args: Any, output: Any) -> None:
        training.module_depth -= 1

    if not training.released:
        training.module_hooks.renew(
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, always_call=True),
        )

    def release() -> None:
        training.released = True
        training.module_hooks.renew()

    recorder.release = release
