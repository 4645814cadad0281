"""AWS Lambda on Intel and AMD."""

from hotfoot.contract.platforms import DECODER_RECIPES, ENCODER_RECIPES, LAMBDA_LIMITS, LAMBDA_SESSION
from hotfoot.contract.target import Target

TARGET = Target(
    name="lambda-x86_64",
    summary="AWS Lambda on x86_64",
    system="lambda",
    arch="x86_64",
    isa=("avx2",),  # AVX2 is documented; AVX-512 and VNNI are not promised
    python="3.13",  # .pyc files must be made by the same minor version, and 3.13 is the easier one to have at hand
    platform="x86_64-manylinux_2_28",
    glibc=(2, 34),
    limits=LAMBDA_LIMITS,
    session=LAMBDA_SESSION,
    # AVX2 sums pairs of uint8 x int8 in 16 bits: 2 x 255 x 64 is the most that never saturates, so that the integers are those of
    # every newer CPU. On MiniLM 4 of 10 million pairs saturate at ±95, 354 at ±127.
    int8_range=64,
    recipes=ENCODER_RECIPES,
    decoder_recipes=DECODER_RECIPES,
)
