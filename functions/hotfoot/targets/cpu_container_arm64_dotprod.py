"""A server or container on an arm64 CPU with the dot product only."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, DECODER_RECIPES, ENCODER_RECIPES, SERVER_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="cpu-container-arm64-dotprod",
    summary="container or server, arm64 with dot product only",
    system="container",
    arch="arm64",
    isa=("dotprod",),  # Graviton2, Neoverse N1 and newer
    python="",
    platform="aarch64-manylinux_2_28",
    glibc=(2, 28),
    limits=CONTAINER_LIMITS,
    session=SERVER_SESSION,
    int8_range=127,  # dot product sums in 32 bits, so nothing saturates
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
