"""Facts that several targets share: a platform's limits, how a session runs there, the encoder recipes."""

from hotfoot.contract.target import MIB, Limits, SessionSpec

LAMBDA_LIMITS = Limits(
    package_bytes=262_144_000,  # unzipped, function and layers together; a hard limit
    layers=5,
    request_bytes=6 * MIB,  # the whole event as JSON, so a body must be smaller
    response_bytes=6 * MIB,  # the whole answer as JSON
)
CONTAINER_LIMITS = Limits(package_bytes=None, layers=None, request_bytes=16 * MIB, response_bytes=64 * MIB)

LAMBDA_SESSION = SessionSpec(
    providers=("CPUExecutionProvider",),
    cpu_arena=False,  # an arena keeps the largest batch for ever, and memory is what a function is billed by
    mem_pattern=False,  # one plan a shape would pile up: lengths vary with each request
    config={
        "session.intra_op.allow_spinning": "0",  # a vCPU that Lambda throttles or freezes pays for every spin
    },
)
SERVER_SESSION = SessionSpec(
    providers=("CPUExecutionProvider",),
    cpu_arena=True,  # a long-lived process: reuse beats a small footprint
    mem_pattern=False,  # as above
    config={
        "session.intra_op.allow_spinning": "0",  # idle pools must not burn a neighbour's cores
    },
)

# precision -> passes, in order
ENCODER_RECIPES = {
    "fp32": ("prune", "ort_rewrite", "pool_in_graph"),
    "int8": ("prune", "ort_rewrite", "pool_in_graph", "int8_rowwise", "int8_embeddings"),
}
