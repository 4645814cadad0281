"""A server or container on an arm64 CPU with int8 matrix products."""

from hotfoot.contract.platforms import CONTAINER_LIMITS, DECODER_RECIPES, ENCODER_RECIPES, SERVER_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="cpu-container-arm64",
    summary="container or server, arm64 with i8mm and bf16",
    system="container",
    arch="arm64",
    # Graviton3, Neoverse V1 and newer. i8mm gives the dot product's integers, sooner. Products of floats in bf16
    # (`mlas.enable_gemm_fastmath_arm64_bfloat16`) stay off: they change answers, and no gate could see it on another machine
    isa=("dotprod", "i8mm", "bf16"),
    python="",
    platform="aarch64-manylinux_2_28",
    glibc=(2, 28),
    limits=CONTAINER_LIMITS,
    session=SERVER_SESSION,
    int8_range=127,  # dot product sums in 32 bits, so nothing saturates
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
