"""SnapStart: what is done before Lambda freezes a started environment, and in every copy of it that wakes.

A copy has the memory of the one that was frozen, minutes or weeks ago. So what must not be shared by copies, or grows old, is let go
before and made anew after: clients with their connections and credentials, the shared table's secret, the state of `random`.
What needs nothing: ids and seeds that a request asks for come from the kernel, and every clock is started by the request it times.
The seed of `hash` cannot be changed in a process, so all copies have one.

A copy's memory is loaded page by page, when a page is first read; so what counts is how many pages the first request reads. Numbers
here are MiniLM's in int8, of 103 MB resident: a text of 10 words reads 16 to 20 MB.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotfoot import aws, settings
from hotfoot.batching import BATCH_TOKENS
from hotfoot.model import Model

Hook = Callable[[], None]


def register(model: Model, *, forget: Sequence[Hook], restored: Hook) -> None:
    """Have Lambda's runtime call `freeze` and `wake`, where this environment is started for a snapshot; elsewhere nothing happens.

    For a handler's module to call as it is imported: the runtime takes no hook later than that. forget: what lets clients go.
    restored: told of every copy that wakes.
    """
    if not settings.read().snap_start:
        return
    from snapshot_restore_py import register_after_restore, register_before_snapshot  # comes with Lambda's runtime, and only there

    register_before_snapshot(freeze, model, forget)
    register_after_restore(wake, restored)


def freeze(model: Model, forget: Sequence[Hook]) -> None:
    """Before the snapshot. Raises what the model raises, so that a model which cannot run is never published."""
    grow(model)
    for hook in (*forget, aws.forget):
        hook()
    if model.memory is not None and model.memory.shared is not None:
        model.memory.shared.forget()
    gc.unfreeze()  # what was made before the handler was whole, too: the client that read the secret, with its connection
    gc.collect()
    gc.freeze()  # or the first full collection reads every object there is: 12 MB, and 0.3 with it


def grow(model: Model) -> None:
    """Run as long a text as a micro-batch holds: no usual request takes more memory, so none has to wait for the kernel to find it.

    The first text of 240 words took 2000 page faults and takes 4 after this; the pages that it reads stay as many.
    """
    text, bare = "a " * BATCH_TOKENS, replace(model, tokenizer=model.tokenizer.forgetful())
    if model.task.generate is None:
        bare.outputs((text,))
        return
    request = model.task.parse(text, {"max_new_tokens": 2}, model.manifest)
    bare.answer(replace(request, truncate=model.manifest.tokenizer.truncation_side))


def wake(restored: Hook) -> None:
    """After a restore."""
    random.seed()  # boto3 draws the pauses between its tries from it: copies would all come back at the same moments
    restored()
