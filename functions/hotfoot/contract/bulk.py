"""What the bulk pipeline is told: the infrastructure writes it as `HOTFOOT_BULK`, the runtime and `hotfoot run` read it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError

OF_THEIR_OWN = ("truncate", "truncation", "stride")  # task parameters that are options here, so that one place says them


@dataclass(frozen=True)
class BulkOptions:
    """How objects become records, and records answers.

    mask: token classification writes each text with `[LABEL]` in place of its entities, and no word of it elsewhere.
    whole: a .txt object is one text, not a text a line. field, id_field: what is read of a JSON line; an id is copied into its
    record as it is, error records and masked ones too, so it must be nothing to hide. truncate: cut texts that are too long,
    which otherwise become error records. stride: tokens that the windows over a long text share; null or 0 is the
    task's default. part_bytes: size at which a result goes on in a new part. parameters: the task's own.
    """

    mask: bool = False
    whole: bool = False
    field: str = "text"
    id_field: str | None = None
    truncate: bool = False
    stride: int | None = None
    part_bytes: int = 8_000_000
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Eight hex digits over what decides an answer, so that two ways of reading never end up in one result."""
        meaning = codec.plain(self)
        del meaning["part_bytes"]
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:8]


def read(text: str, source: str = "HOTFOOT_BULK") -> BulkOptions:
    """Options from JSON; an empty text gives the defaults. Raises ArtifactError that names every fault."""
    options = codec.loads(BulkOptions, text or "{}", source)
    if found := faults(options):
        raise ArtifactError(f"{source} is not a valid BulkOptions:\n" + "\n".join(f"  {fault}" for fault in found))
    return options


def faults(options: BulkOptions) -> list[str]:
    """What is wrong whatever the model is; what only the model can tell is refused when it is opened."""
    found = []
    if not options.field:
        found.append("field: must not be empty")
    if options.id_field == "":
        found.append("id_field: must not be empty; null reads no id")
    if options.mask and options.id_field == options.field:
        found.append(f"id_field: is the text's own field, {options.field!r}: ids are copied as they are, which would undo mask")
    if options.part_bytes < 1:
        found.append(f"part_bytes: must be at least 1, got {options.part_bytes}")
    if options.stride is not None and options.stride < 0:
        found.append(f"stride: must be at least 0, got {options.stride}")
    found += [f"parameters.{name}: is an option of its own" for name in OF_THEIR_OWN if name in options.parameters]
    return found
