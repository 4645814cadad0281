"""A server or container on an x86_64 CPU without VNNI."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, ENCODER_RECIPES, SERVER_SESSION
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
    int8_range=95,  # AVX2 sums u8 x s8 pairs in 16 bits, where the full range saturates
    recipes=ENCODER_RECIPES,
)
