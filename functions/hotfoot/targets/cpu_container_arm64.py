"""A server or container on an arm64 CPU."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, ENCODER_RECIPES, SERVER_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="cpu-container-arm64",
    summary="container or server, arm64",
    system="container",
    arch="arm64",
    isa=("dotprod",),  # Graviton2 and newer; i8mm gives the same integers where the CPU has it
    python="",
    platform="aarch64-manylinux_2_28",
    glibc=(2, 28),
    limits=CONTAINER_LIMITS,
    session=SERVER_SESSION,
    int8_range=127,  # dot product sums in 32 bits, so nothing saturates
    recipes=ENCODER_RECIPES,
)
