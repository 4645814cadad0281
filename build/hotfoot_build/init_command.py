"""`hotfoot init`: a commented hotfoot.toml and the cdk.json to deploy it, whichever of them a folder lacks."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from hotfoot.contract.errors import InputError
from hotfoot.contract.project import FILE

CDK = "cdk.json"
TEMPLATE = """\
# What to build and what to deploy. Paths are seen from this file's folder.

[build.embed]                     # hotfoot build embed
model = "sentence-transformers/all-MiniLM-L6-v2"
task = "feature-extraction"       # `hotfoot tasks` lists them
target = "lambda-arm64"           # `hotfoot targets` lists them
# revision = "main"               # a branch, tag or commit; pinned to one commit for every file
# precision = "int8"              # or "fp32" ...; "auto": the fastest that is still right
# pooling = "mean"                # where the model does not say
# max_tokens = 256                # lower than the model's own
# labels = ["sport", "politics"]  # of zero-shot-classification: asked for where a request names none
# entailment = "LABEL_2"          # of zero-shot-classification: where no label of the model is called so
# known = "known.txt"             # texts whose tokens the tokenizer's layer brings along
# samples = "samples.txt"         # texts to prove the artifact on
# package = "layers"              # or "s3" or "image"; without it, the first of these that fits
# thresholds = { cosine_mean = 0.99 }

[deploy.embed]                    # hotfoot bundle embed, then: cdk deploy hotfoot-embed
auth = "iam"                      # "none": anyone may call it, and you pay
# cors_origins = ["https://app.example.com"]  # whose pages may call it from a browser; without it, with "iam", none
memory_mb = 1769                  # 1769 is one whole processor
timeout_s = 29                    # an HTTP API waits no longer
throttle_rate = 50                # requests a second
throttle_burst = 100
log_retention_days = 30
# log_level = "INFO"
removal = "retain"                # "destroy": logs and empty buckets go with the stack
# reserved_concurrency = 10       # at most so many at once
# provisioned_concurrency = 1     # so many always warm, and always paid
# in its place, snap_start (true): new ones wake from a snapshot, which is paid by the hour and for each waking
# shared_cache = true             # a table of answers for all its environments; pays for models of over 0.1 s a text only

# [deploy.embed.bulk]             # texts put into a bucket become results in another
# input_prefix = "in/"
# input_suffixes = [".jsonl", ".txt"]
# results_prefix = "results"
# field = "text"                  # of each JSON line
# id_field = "id"                 # copied as it is, with mask too
# timeout_s = 300
# batch_size = 1                  # objects an invocation; more shares the timeout among them
# max_concurrency = 10

# [api.text]                      # one API for several deployments: cdk deploy hotfoot-text
# deploys = ["pii", "mood"]       # each a [deploy.NAME], which then says nothing of what stands here
# default = "mood"                # answers what names no model; without it, the first
# auth = "iam"
# cors_origins = ["https://app.example.com"]
# throttle_rate = 50
# throttle_burst = 100
"""
# how the CDK behaves, where that has changed over time
CONTEXT = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    "@aws-cdk/aws-lambda:recognizeLayerVersion": True,
    "@aws-cdk/aws-lambda:recognizeVersionProps": True,
    "@aws-cdk/core:checkSecretUsage": True,
    "@aws-cdk/core:target-partitions": ["aws", "aws-cn", "aws-us-gov"],
    "@aws-cdk/core:validateAgainstDefaultRules": True,
}


def init(directory: Path) -> tuple[Path, ...]:
    """Write what is not there of both files, and give the paths of what was written. Raises InputError where both are there already."""
    settings = {"app": f"{interpreter(directory)} -m hotfoot_infra.app", "versionReporting": False, "context": CONTEXT}
    both = {FILE: TEMPLATE, CDK: json.dumps(settings, indent=2) + "\n"}
    written = {name: text for name, text in both.items() if not (directory / name).exists()}
    if not written:
        raise InputError(f"{directory} already has {FILE} and {CDK}, which will not be overwritten.", hint="Choose another folder.")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")
    return tuple(directory / name for name in written)


def interpreter(directory: Path) -> str:
    """The Python that runs this, as `cdk` can start it: seen from `directory` where it lies in there, so that others can use it too."""
    # not resolved: a virtual environment's python is a link, and what it links to knows none of its packages
    running, home = Path(sys.executable).absolute(), directory.absolute()
    path = running.relative_to(home) if running.is_relative_to(home) else running
    return shlex.quote(str(path))
