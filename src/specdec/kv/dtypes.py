"""What a cached value costs: whole numbers of bytes for whole numbers of values, block scales included."""

from dataclasses import dataclass

from specdec.kv.counts import blocks


@dataclass(frozen=True)
class CacheDtype:
    """``bytes`` for every ``values`` values; a row whose length is no multiple is rounded up to a whole block."""

    name: str
    bytes: int
    values: int = 1
    note: str = ""

    def size(self, values: int) -> int:
        """Bytes of one row of so many values."""
        return blocks(values, self.values) * self.bytes


_ALL = (
    CacheDtype("f32", 4),
    CacheDtype("f16", 2),
    CacheDtype("bf16", 2),
    CacheDtype("fp8", 1, note="one scale a tensor, not counted"),
    CacheDtype("int8", 1, note="one scale a tensor, not counted"),
    CacheDtype("q8_0", 34, 32, "ggml: 32 values of 8 bits and one f16 scale"),
    CacheDtype("q5_1", 24, 32, "ggml: 32 values of 5 bits, an f16 scale and an f16 minimum"),
    CacheDtype("q5_0", 22, 32, "ggml: 32 values of 5 bits and one f16 scale"),
    CacheDtype("q4_1", 20, 32, "ggml: 32 values of 4 bits, an f16 scale and an f16 minimum"),
    CacheDtype("q4_0", 18, 32, "ggml: 32 values of 4 bits and one f16 scale"),
    CacheDtype("iq4_nl", 18, 32, "ggml: 32 values of 4 bits and one f16 scale"),
    CacheDtype("nvfp4", 9, 16, "16 values of 4 bits and one fp8 scale"),
    CacheDtype("mxfp4", 17, 32, "32 values of 4 bits and one 8-bit exponent"),
    CacheDtype("fp8_128", 132, 128, "128 values of 8 bits and one f32 scale"),
)

DTYPES = {dtype.name: dtype for dtype in _ALL}
ALIASES = {
    "float32": "f32", "fp32": "f32", "float": "f32",
    "float16": "f16", "fp16": "f16", "half": "f16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "f8": "fp8",
    "q8": "q8_0", "q5": "q5_0", "q4": "q4_0", "fp4": "nvfp4",
}  # fmt: skip


def cache_dtype(name: "str | CacheDtype") -> CacheDtype:
    """The dtype of a name, such as f16, float16, torch.float16 or q8_0; ``ValueError`` lists the names that are known."""
    if isinstance(name, CacheDtype):
        return name
    short = str(name).lower().removeprefix("torch.")
    short = ALIASES.get(short, short)
    if short not in DTYPES:
        raise ValueError(f"cache dtype {name!r} is not known; known are {', '.join(DTYPES)}")
    return DTYPES[short]
