"""hotfoot.toml: what to build and what to deploy. Both sides of the wall read it, each its own tables."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from hotfoot.contract import bulk as bulk_options
from hotfoot.contract import codec, sharing, toml
from hotfoot.contract.bulk import BulkOptions
from hotfoot.contract.bundle import Package
from hotfoot.contract.errors import InputError
from hotfoot.contract.toml import Document, Form, Range

T = TypeVar("T")
FILE = "hotfoot.toml"
NAME = r"[a-z][a-z0-9-]{0,30}"  # it becomes part of a stack's name

Memory = Annotated[int, Range(128, 10_240)]
Timeout = Annotated[int, Range(1, 900)]
ENVIRONMENT = 3000  # of the 4 KB that Lambda allows for all of it
# a key that EventBridge can match: `*` and `\` have a meaning there
Prefix = Annotated[str, Form(r"[^/*\\][^*\\]*", "a key prefix, not empty, without `*` and `\\`, not starting with `/`")]
Suffix = Annotated[str, Form(r"[^*\\]+", "the end of a key, as `.jsonl`, without `*` and `\\`")]
# `auto` searches for the fastest recipe that is still right; the others name one of the target's
Precision = Literal["auto", "fp32", "fp16", "int8", "int8-dynamic", "int8-static", "int8-weights", "int4-weights"]
Origin = Annotated[str, Form(r"\*|https?://[^/\s]+", "the origin of a web page, as `https://app.example.com`, or `*`")]
# the periods that CloudWatch Logs knows
Days = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]


@dataclass(frozen=True)
class Pinned:
    """What `precision = "auto"` found, so that the next build need not search; take it out to search again."""

    precision: Precision
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Build:
    """`[build.NAME]`: the same names as the flags of `hotfoot build`. None means: as the model says, or the default.

    options: a pass's own settings, as `[build.NAME.options.int8_rowwise]`, in the place of what the target says. known: a file of texts,
    one a line, whose encodings ship with the tokenizer. labels, entailment: of zero-shot-classification, the labels to choose from where
    a request brings none, and which of the model's own means entailment, where no name of theirs says. package: how it travels, where
    not in the first way that fits.
    """

    model: str
    task: str
    target: str = "local"
    precision: Precision = "int8"
    out: str | None = None
    revision: str | None = None
    name: str | None = None
    pooling: Literal["cls", "mean", "max", "last", "none"] | None = None
    max_tokens: Annotated[int, Range(1, 1_000_000)] | None = None
    samples: str | None = None
    thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    allow_pickle: bool = False
    trust_remote_code: bool = False
    known: str | None = None
    labels: tuple[str, ...] = ()
    entailment: str | None = None
    package: Package | None = None
    pinned: Pinned | None = None


@dataclass(frozen=True)
class Bulk:
    """`[deploy.NAME.bulk]`: objects under `input_prefix` of one bucket become results under `results_prefix` of another.

    What is no prefix and no matter of the infrastructure is one of the BulkOptions, and means what it means there.
    batch_size: messages an invocation. They are worked off one after the other inside one timeout, so more than one is for many small
    objects only.
    """

    enabled: bool = True
    input_prefix: Prefix = "in/"
    input_suffixes: tuple[Suffix, ...] = ()
    results_prefix: Prefix = "results"
    mask: bool = BulkOptions.mask
    whole: bool = BulkOptions.whole
    field: str = BulkOptions.field
    id_field: str | None = BulkOptions.id_field
    truncate: bool = BulkOptions.truncate
    stride: Annotated[int, Range(0, 1_000_000)] | None = BulkOptions.stride
    part_bytes: Annotated[int, Range(1, 1_000_000_000)] = BulkOptions.part_bytes
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    memory_mb: Memory = 1769
    timeout_s: Timeout = 300
    batch_size: Annotated[int, Range(1, 10_000)] = 1
    batch_window_s: Annotated[int, Range(0, 300)] = 0
    max_concurrency: Annotated[int, Range(2, 1000)] = 10

    @property
    def options(self) -> BulkOptions:
        """What the function is told."""
        return BulkOptions(**{option.name: getattr(self, option.name) for option in dataclasses.fields(BulkOptions)})


@dataclass(frozen=True, kw_only=True)
class Door:
    """What a stack's HTTP API lets in, and how long logs are kept, and data where the stack is deleted.

    cors_origins: whose pages may call the API from a browser. With none, an API that is open to all is open to every page, as the
    app itself answers; and one with auth = "iam" to no page.
    """

    auth: Literal["none", "iam"] = "iam"
    cors_origins: tuple[Origin, ...] = ()
    throttle_rate: Annotated[float, Range(1, 100_000)] = 50
    throttle_burst: Annotated[int, Range(1, 100_000)] = 100
    log_retention_days: Days = 30
    removal: Literal["retain", "destroy"] = "retain"


# what a deployment cannot say for itself once it stands behind an API that others share
SHARED = ("auth", "cors_origins", "throttle_rate", "throttle_burst")


@dataclass(frozen=True, kw_only=True)
class Api(Door):
    """`[api.NAME]`: one stack, with a function for each of `deploys` behind one HTTP API.

    default names the one that answers what asks for no certain model; without it, the first. Logs and removal here are the API's own;
    each deployment's are its functions'.
    """

    deploys: tuple[str, ...]
    default: str | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """The deployments, the default first and the others in their order."""
        first = self.default or self.deploys[0]
        return (first, *(name for name in self.deploys if name != first))


@dataclass(frozen=True, kw_only=True)
class Deploy(Door):
    """`[deploy.NAME]`: one stack, or a part of an API's. bundle is a folder that `hotfoot bundle` wrote, by default `bundles/NAME`.

    shared_cache: a table in which the environments of a slow model find what others have computed. snap_start: new environments of
    the HTTP function are copies of one that was started when its version was published.
    """

    bundle: str | None = None
    memory_mb: Memory = 1769
    timeout_s: Timeout = 29
    reserved_concurrency: Annotated[int, Range(1, 100_000)] | None = None
    provisioned_concurrency: Annotated[int, Range(1, 100_000)] | None = None
    snap_start: bool = False
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    shared_cache: bool = False
    bulk: Bulk | None = None


@dataclass(frozen=True)
class Project:
    """The file, read and checked. `document` still knows the lines, for whoever finds a fault later on."""

    path: Path
    builds: Mapping[str, Build]
    deploys: Mapping[str, Deploy]
    apis: Mapping[str, Api]
    document: Document = dataclasses.field(repr=False, compare=False)

    def build(self, name: str) -> Build:
        """The table `[build.NAME]`; raises InputError that lists those there are."""
        if name not in self.builds:
            raise InputError(f"{self.path.name} has no [build.{name}]; it has {', '.join(sorted(self.builds)) or 'no build table'}.")
        return self.builds[name]

    def bundle_dir(self, name: str) -> Path:
        """Where the bundle of `[deploy.NAME]` lies, or will lie where there is only `[build.NAME]`."""
        chosen = self.deploys[name].bundle if name in self.deploys else None
        return self.path.parent / (chosen or f"bundles/{name}")

    def artifact_dir(self, name: str) -> Path:
        """Where the artifact of `[build.NAME]` lies."""
        return self.path.parent / (self.build(name).out or f"artifacts/{name}")


def read(path: Path, *, tasks: Collection[str] | None = None, targets: Collection[str] | None = None) -> Project:
    """Read and check the file. Raises InputError: every fault at once, each with its line.

    tasks, targets: the names there are, from whoever knows them; None takes any.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no {path}.", hint="`hotfoot init` writes one.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error}.") from None
    document = toml.parse(text, path.name)
    for name in document.values:
        if name not in ("build", "deploy", "api"):
            document.fault((name,), "unknown table; there are [build.NAME], [deploy.NAME] and [api.NAME]")
    builds = _named("build", Build, document)
    deploys = _named("deploy", Deploy, document)
    apis = _named("api", Api, document)
    _check_names(document, tasks, targets)
    for name, deploy in deploys.items():
        _check(document, ("deploy", name), deploy)
    for name, api in apis.items():
        _check_door(document, ("api", name), api)
    sharing.check(document, {name: (api.deploys, api.default) for name, api in apis.items()}, SHARED)
    document.check()
    return Project(path, builds, deploys, apis, document)


def _named(group: str, kind: type[T], document: Document) -> dict[str, T]:
    tables = document.values.get(group, {})
    if not isinstance(tables, dict):
        document.fault((group,), f"must be tables of the form [{group}.NAME]")
        return {}
    made = {}
    for name in tables:
        if not re.fullmatch(NAME, name):
            document.fault((group, name), "a name has lower-case letters, digits and `-`, starts with a letter, and has 31 at most")
        made[name] = toml.read(kind, document, (group, name))
    return {name: section for name, section in made.items() if section is not None}


def _check_names(document: Document, tasks: Collection[str] | None, targets: Collection[str] | None) -> None:
    """Tasks and targets as the file has them, also in tables with other faults. What is no text is told elsewhere.

    A task with a dot is a module of the user's own, which only the build can look for.
    """
    tables = document.values.get("build")
    for name, table in tables.items() if isinstance(tables, dict) else ():
        asked = table if isinstance(table, dict) else {}
        task, target = asked.get("task"), asked.get("target")
        if tasks is not None and isinstance(task, str) and task not in tasks and "." not in task:
            words = f"is {task!r}; there are {', '.join(sorted(tasks))}, or a module of your own, as mypkg.mytask"
            document.fault(("build", name, "task"), words)
        if targets is not None and isinstance(target, str) and target not in targets:
            document.fault(("build", name, "target"), f"is {target!r}; there are {', '.join(sorted(targets))}")


def _check(document: Document, path: tuple[str, ...], deploy: Deploy) -> None:
    """What no key alone can tell."""
    reserved, provisioned = deploy.reserved_concurrency, deploy.provisioned_concurrency
    if reserved is not None and provisioned is not None and provisioned > reserved:
        document.fault((*path, "provisioned_concurrency"), f"is {provisioned}, more than the reserved {reserved}")
    if deploy.snap_start and provisioned is not None:
        document.fault((*path, "snap_start"), "is no choice beside provisioned_concurrency, as AWS allows a function one of the two only")
    _check_door(document, path, deploy)
    bulk = deploy.bulk
    if bulk and len(json.dumps(codec.plain(bulk.options))) > ENVIRONMENT:
        document.fault((*path, "bulk"), f"is too much for a function's environment: {ENVIRONMENT} characters at most, as JSON")
    for message in bulk_options.faults(bulk.options) if bulk else ():
        key, _, words = message.partition(": ")
        document.fault((*path, "bulk", *key.split(".")), words)
    if bulk and bulk.batch_size > 10 and bulk.batch_window_s == 0:
        document.fault((*path, "bulk", "batch_size"), f"is {bulk.batch_size}; above 10, AWS asks for a batch_window_s of 1 at least")


def _check_door(document: Document, path: tuple[str, ...], door: Door) -> None:
    if door.throttle_burst < door.throttle_rate:
        document.fault((*path, "throttle_burst"), f"is {door.throttle_burst}, less than the rate of {door.throttle_rate:g} a second")
