"""A server or container on an x86_64 CPU with VNNI."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, DECODER_RECIPES, ENCODER_RECIPES, SERVER_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="cpu-container-x86_64",
    summary="container or server, x86_64 with VNNI",
    system="container",
    arch="x86_64",
    isa=("avx2", "vnni"),  # Cascade Lake, Zen 4 and newer
    python="",
    platform="x86_64-manylinux_2_28",
    glibc=(2, 28),
    limits=CONTAINER_LIMITS,
    session=SERVER_SESSION,
    int8_range=127,  # VNNI sums in 32 bits, so nothing saturates
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
