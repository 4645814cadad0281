"""A server or container on an x86_64 CPU without VNNI."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, DECODER_RECIPES, ENCODER_RECIPES, SERVER_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="cpu-container-x86_64-avx2",
    summary="container or server, x86_64 with AVX2 only",
    system="container",
    arch="x86_64",
    isa=("avx2",),  # Haswell, Zen and newer
    python="",
    platform="x86_64-manylinux_2_28",
    glibc=(2, 28),
    limits=CONTAINER_LIMITS,
    session=SERVER_SESSION,
    # AVX2 sums pairs of uint8 x int8 in 16 bits: 2 x 255 x 64 is the most that never saturates, so that the integers are those of
    # every newer CPU. On MiniLM 4 of 10 million pairs saturate at ±95, 354 at ±127.
    int8_range=64,
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
