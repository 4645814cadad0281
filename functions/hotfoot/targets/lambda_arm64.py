"""AWS Lambda on Graviton."""

from hotfoot.contract.platforms import DECODER_RECIPES, ENCODER_RECIPES, LAMBDA_LIMITS, LAMBDA_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="lambda-arm64",
    summary="AWS Lambda on Graviton (arm64)",
    system="lambda",
    arch="arm64",
    isa=("dotprod",),  # Graviton2, Neoverse N1: dot product, but neither i8mm nor bf16
    python="3.13",  # .pyc files must be made by the same minor version, and 3.13 is the easier one to have at hand
    platform="aarch64-manylinux_2_28",
    glibc=(2, 34),
    limits=LAMBDA_LIMITS,
    session=LAMBDA_SESSION,
    int8_range=127,  # dot product sums in 32 bits, so nothing saturates
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
