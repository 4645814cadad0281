"""Facts that several targets share: a platform's limits, how a session runs there, the recipes."""

from hotfoot.contract.target import MIB, Limits, SessionSpec

LAMBDA_LIMITS = Limits(
    package_bytes=262_144_000,  # unzipped, function and layers together; a hard limit
    layers=5,
    image_bytes=10 * 1024 * MIB,  # uncompressed
    request_bytes=6 * MIB,  # the whole event as JSON, so a body must be smaller
    response_bytes=6 * MIB,  # the whole answer as JSON
)
CONTAINER_LIMITS = Limits(package_bytes=None, layers=None, image_bytes=None, request_bytes=16 * MIB, response_bytes=64 * MIB)

# What is said of time here, `scripts/bench sessions` measured: MiniLM in int8, x86_64 with VNNI.
LAMBDA_SESSION = SessionSpec(
    providers=("CPUExecutionProvider",),
    cpu_arena=True,  # without it the same runs take 1.02 to 1.04 times the CPU, and at most 1.2 times the memory (BERT-base, too)
    mem_pattern=False,  # with it 0.99 to 1.01 times the time, and a plan more is kept for every new shape: 1.1 times the memory
    config={
        # A vCPU that is throttled or shared pays for every spin: on busy cores two threads took 1.8 to 4.5 times as long with it
        # and twice the CPU, and burnt 25 ms after each run. On idle cores 0.7 times: that is no place to count on. Stopping the
        # spin after a run mends only the last.
        "session.intra_op.allow_spinning": "0",
        # Prepacking stays on: opening takes 0.5 times the CPU without (10 ms less), a text of 128 tokens 1.07 times, of 16 1.37.
        # dynamic_block_base stays as it is: 0.9 to 1.03 times, no difference that is sure.
        # On arm64 "mlas.disable_kleidiai": "1" would do without Arm's own kernels, which keep buffers for each thread: 2.2 GB were seen
        # where the arena is off and threads are many. Neither is so here, and memory over a long life is tested.
    },
)
SERVER_SESSION = SessionSpec(
    providers=("CPUExecutionProvider",),
    cpu_arena=True,  # as above
    mem_pattern=False,  # as above
    config={
        "session.intra_op.allow_spinning": "0",  # as above: instances share a host's cores
    },
)

# precision -> passes, in order
_CLEAN = (
    *("prune", "static_shapes", "attention_mask", "ort_rewrite", "unpadded", "position_slice", "one_segment"),
    *("pool_in_graph", "head_only", "fold", "sequence_first"),
)
ENCODER_RECIPES = {
    "fp32": _CLEAN,
    "fp16": (*_CLEAN, "mixed", "float16"),
    "int8": (*_CLEAN, "mixed", "int8_rowwise", "int8_embeddings"),
    "int8-dynamic": (*_CLEAN, "mixed", "int8_dynamic", "int8_embeddings"),
    "int8-static": (*_CLEAN, "mixed", "int8_static", "int8_rowwise", "int8_embeddings"),
    "int8-weights": (*_CLEAN, "mixed", "int8_weights", "int8_embeddings"),
    "int4-weights": (*_CLEAN, "mixed", "int4_weights", "int8_embeddings"),
}

# of graphs that make text: a decoder's, and both of an encoder-decoder
_GENERATIVE = ("prune", "fuse_gqa", "static_shapes", "ort_rewrite", "share_embeddings")
# weights alone: a step reads every weight for one token, so that their bytes are its time
DECODER_RECIPES = {
    "fp32": _GENERATIVE,
    "int8": (*_GENERATIVE, "int8_weights", "int8_embeddings"),
    "int4-weights": (*_GENERATIVE, "int4_weights", "int8_embeddings"),
}
