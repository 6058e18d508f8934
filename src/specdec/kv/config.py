"""Hugging Face ``config.json`` to a cache shape: how many layers of each kind keep what.

Read are dense, grouped, multi-query and latent attention, sliding and chunked windows, layers that share a cache, and linear,
Mamba and convolution layers, under the names that the Hub's files use for them. A number that the file leaves out comes from
its family's defaults or a plain rule, with a sentence in ``CacheShape.warnings``; where neither is sure, ``ValueError`` asks for
the key by name. What would change the answer and is not understood raises too.

The steps: lay the text model's keys over those around them (``_merged``); give each layer a kind by the first rule of ``RULES``
that finds its keys; build what a layer of that kind keeps (``_layer``); mark the layers that share; group equal ones.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specdec.kv.dtypes import CacheDtype, cache_dtype
from specdec.kv.shape import CacheShape, Layers, Part, attention, gated_delta, latent, mamba, mamba2

# ---- tables -----------------------------------------------------------------------------------------------------------

NESTED = ("thinker_config", "text_config", "llm_config", "language_config", "transformer_layer_config")
"""Where models of images and sound keep the config of their text, and ``speculators`` that of a draft's layers."""

LAYERS_MOST, SIZE_MOST, LENGTH_MOST = 10_000, 10_000_000, 10**12
"""More layers, wider vectors and longer texts than these can't be meant."""

NAMES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"),
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "attn_config.kv_n_heads",
        "num_attention_groups", "num_key_value_heads_per_layer",
    ),
    "sliding_window": ("sliding_window", "sliding_window_size"),
    "local_window": ("attention_window_size", "window_size"),
    "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"),
    "swa_num_key_value_heads": ("swa_num_key_value_heads", "attention_other_setting.num_attention_groups"),
    "swa_head_dim": ("swa_head_dim", "attention_other_setting.head_dim"),
    "global_num_key_value_heads": ("num_global_key_value_heads", "global_num_key_value_heads"),
    "layer_types": ("layer_types", "layers_block_type", "attention_layers"),
    "block_types": ("block_types", "_block_types"),
    "attn_type_list": ("attn_type_list", "decoder_attention_types"),
    "attn_layer_indices": ("attn_layer_indices", "full_attn_idxs"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": (
        "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "max_context_length",
        "n_ctx", "model_max_length",
    ),
    "linear_num_heads": ("linear_num_heads", "linear_attn_config.num_heads"),
    "linear_head_dim": ("linear_head_dim", "linear_attn_config.head_dim"),
    "linear_conv_kernel_dim": (
        "linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size",
    ),
    "mamba_num_heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads"),
    "mamba_head_dim": ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
    "mamba_d_state": ("mamba_d_state", "ssm_state_size", "state_size"),
    "mamba_n_groups": ("mamba_n_groups", "mamba_ngroups", "mamba_num_groups", "n_groups"),
    "mamba_d_conv": ("mamba_d_conv", "conv_kernel"),
    "mamba_expand": ("mamba_expand", "expand"),
    "mamba_ssm_dtype": ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
}  # fmt: skip
"""A key's names in the order in which they are tried; a dot leads into a nested dict. Keys not listed have one name."""

KINDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "indexed_attention": "full", "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding", "local": "sliding", "local_attention": "sliding", "sliding_window": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "mamba2": "linear",
    "recurrent": "lru",
    "conv": "conv", "short_conv": "conv",
    "hybrid": "both",
    "mlp": "none", "moe": "none", "ffn": "none",
}  # fmt: skip
"""What a layer is called in ``layer_types`` and its like, and the kind that it is here. ``both``: attention beside a state."""

LETTERS = {"M": "linear", "*": "full", "-": "none", "E": "none"}
"""``hybrid_override_pattern`` of Nemotron-H: Mamba, attention, MLP, experts."""

NO_FLAG: dict[str, Any] = {"use_sliding_window": False}
GEMMA_2 = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096}
GEMMA_3 = {**GEMMA_2, "sliding_window_pattern": 6, "max_position_embeddings": 131_072, "vocab_size": 262_208}
GEMMA_3N = {**GEMMA_2, "num_key_value_heads": 2, "sliding_window": 512, "sliding_window_pattern": 5, "num_kv_shared_layers": 15,
            "max_position_embeddings": 32_768, "vocab_size": 262_400}  # fmt: skip
GEMMA_4 = {**GEMMA_3, "sliding_window": 512, "global_head_dim": 512, "vocab_size": 262_144}
LLAMA_4 = {"num_key_value_heads": 8, "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layer_interval": 4}
QWEN_LINEAR = {
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4,
    "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    "mistral": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                "sliding_window": 4096},
    "gemma": {"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256},
    "gemma2": {**GEMMA_2, "sliding_window_pattern": 2}, "vaultgemma": {**GEMMA_2, "sliding_window_pattern": 2},
    "gemma3": GEMMA_3, "gemma3_text": GEMMA_3, "gemma3n": GEMMA_3N, "gemma3n_text": GEMMA_3N,
    "gemma4": GEMMA_4, "gemma4_text": GEMMA_4, "gemma4_unified_text": {**GEMMA_4, "sliding_window": 1024},
    "gpt_oss": {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
                "sliding_window_pattern": 2},
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "exaone4": {"sliding_window_pattern": 4}, "exaone_moe": {"sliding_window_pattern": 4},
    "olmo3": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "afmoe": {"sliding_window_pattern": 4},
    "llama4": LLAMA_4, "llama4_text": LLAMA_4,
    "qwen3_next": QWEN_LINEAR, "qwen3_5_moe_text": QWEN_LINEAR, "qwen3_5_text": {**QWEN_LINEAR, "num_key_value_heads": 4},
    "falcon": {"multi_query": True, "new_decoder_architecture": False}, "gpt_bigcode": {"multi_query": True},
    "recurrent_gemma": {"block_types": ("recurrent", "recurrent", "attention"), "local_window": 2048},
    "smollm3": NO_FLAG, "qwen2": NO_FLAG, "qwen2_moe": NO_FLAG, "qwen2_vl": NO_FLAG, "qwen2_vl_text": NO_FLAG,
    "qwen2_5_vl": NO_FLAG, "qwen2_5_vl_text": NO_FLAG, "qwen2_5_omni_text": NO_FLAG, "qwen3": NO_FLAG, "qwen3_moe": NO_FLAG,
    "qwen3_vl_text": NO_FLAG, "qwen3_vl_moe_text": NO_FLAG, "qwen3_omni_moe_text": NO_FLAG,
}  # fmt: skip
"""What transformers' configuration classes assume where a file of the family leaves a key out."""

ALL_SLIDE = ("mistral", "ministral", "mixtral", "phi3", "phi3_v", "phi4mm", "phi4_multimodal", "phimoe", "starcoder2")
"""Families whose ``sliding_window`` holds for every layer."""

UNMODELLED = {
    "deepseek_v4": "its attention keeps one entry for several tokens",
    "phi4flash": "half of its layers read a cache that the other half writes, in a layout of its own",
    "hymba": "its attention layers share caches in a layout of their own",
    **dict.fromkeys(("xlstm", "rwkv", "rwkv5", "rwkv6", "rwkv7"), "its states are not modelled"),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "deberta-v2", "modernbert",
                     "nomic_bert", "clip", "siglip", "vit"), "an encoder keeps no cache"),
}  # fmt: skip
"""Families that the general rules would read wrongly."""

PLAIN = (
    "afmoe", "apertus", "aquila", "arcee", "arctic", "aria_text", "baichuan", "bailing_hybrid", "bailing_moe", "bamba",
    "bitnet", "bloom", "chatglm", "chatglm2", "codegen", "cohere", "cohere2_moe", "ctrl", "cwm", "dbrx", "deci", "deepseek",
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "diffllama", "dots1", "emu3_text_model", "ernie4_5", "ernie4_5_moe",
    "ernie4_5_vl_moe_text", "exaone", "falcon_h1", "falcon_mamba", "flex_olmo", "fuyu", "glm", "glm4", "glm4_moe",
    "glm4_moe_lite", "glm4v", "glm4v_moe_text", "glm4v_text", "glm_moe_dsa", "gpt2", "gpt_neo", "gpt_neox",
    "gpt_neox_japanese", "gptj", "granite", "granite_swa", "granitemoe", "granitemoehybrid", "granitemoeshared", "helium",
    "hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "internlm", "internlm2", "internlm3", "jais2", "jamba",
    "jetmoe", "kimi_k2", "kimi_k25", "kimi_linear", "laguna", "lfm2", "lfm2_moe", "longcat_flash", "mamba", "mamba2", "mimo",
    "mimo_v2", "mimo_v2_flash", "minicpm", "minicpm3", "minimax", "minimax_m1", "minimax_m2", "minimax_text_01", "ministral3",
    "mistral4", "mllama", "mllama_text_model", "mpt", "nanochat", "nemotron", "nemotron-nas", "nemotron_h", "olmo", "olmo2",
    "olmo_hybrid", "olmoe", "openelm", "opt", "orion", "persimmon", "phi", "phi-msft", "qwen", "RefinedWeb",
    "RefinedWebModel", "seed_oss", "solar", "solar_open", "stablelm", "step3p5", "step3p7", "xverse", "yi", "youtu", "zamba",
    "zamba2",
)  # fmt: skip
"""Families without defaults here whose files were seen to follow the rules below."""


# ---- values -----------------------------------------------------------------------------------------------------------


def whole(name: str, value: Any, most: int = SIZE_MOST, least: int = 1) -> int:
    """``value`` as an integer between ``least`` and ``most``; 32.0 counts as 32, as JSON has one kind of number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}: it must be a whole number")
    if value < least:
        raise ValueError(f"{name} is {value}: it must be at least {least}")
    if value > most:
        raise ValueError(f"{name} is {value}: more than {most:,} can't be meant")
    return value


@dataclass
class Fields:
    """A config's values under their many names, and the sentences about what had to be filled in."""

    values: dict[str, Any]
    family: str
    warnings: list[str] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Note it, once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def named(self, key: str) -> tuple[str, Any]:
        """The first of the key's names that has a value, with the value; the key itself and None without one."""
        for name in NAMES.get(key, (key,)):
            value: Any = self.values
            for step in name.split("."):
                value = value.get(step) if isinstance(value, dict) else None
            if value is not None:
                return name, value
        return key, None

    def get(self, key: str) -> Any:
        """The file's value; else, unless the file says null, the family's default, with a warning; else None."""
        value = self.named(key)[1]
        default = DEFAULTS.get(self.family, {}).get(key)
        if value is None and default is not None and not any(name in self.values for name in NAMES.get(key, (key,))):
            value = default
            if not isinstance(value, bool):
                self.warn(f"config lacks {key}: {value} is taken, the default of {self.family}")
        return value

    def whole(self, key: str, most: int = SIZE_MOST, least: int = 1) -> int | None:
        """``get`` as an integer."""
        value = self.get(key)
        return None if value is None else whole(self.named(key)[0], value, most, least)

    def need(self, key: str, what: str, most: int = SIZE_MOST) -> int:
        """``whole``, or ``ValueError`` that asks for the key."""
        value = self.whole(key, most)
        if value is None:
            raise ValueError(f"config lacks {key}: {what}")
        return value

    def flag(self, key: str) -> bool | None:
        """``get`` as true, false or None."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{key} is {value!r}: it must be true or false")
        return value

    def items(self, key: str) -> list[Any] | None:
        """``get`` as a list."""
        value = self.get(key)
        if value is not None and not isinstance(value, list | tuple):
            raise ValueError(f"{self.named(key)[0]} is {value!r}: it must be a list")
        return None if value is None else list(value)

    def at(self, key: str, layer: int, most: int = SIZE_MOST) -> int | None:
        """``whole`` of one layer: from ``per_layer_config``, a list with one number for each layer, or one number for all."""
        own = self.values.get("per_layer_config")
        own = own.get(str(layer)) if isinstance(own, dict) else None
        if isinstance(own, dict) and own.get(key) is not None:
            return whole(f"{key} of layer {layer}", own[key], most)
        name, value = self.named(key)
        if not isinstance(value, list):
            return self.whole(key, most)
        if layer >= len(value):
            raise ValueError(f"{name} holds {len(value)} numbers: layer {layer} has none")
        return whole(f"{name}[{layer}]", value[layer], most)

    @property
    def count(self) -> int:
        """How many layers there are; LongCat's hold two attentions each, which count as two."""
        layers = self.need("num_hidden_layers", "how many layers there are", LAYERS_MOST)
        doubled = self.family.startswith("longcat_flash") and self.named("num_hidden_layers")[0] == "num_layers"
        return 2 * layers if doubled else layers


# ---- the file ---------------------------------------------------------------------------------------------------------


def parse(text: str, *, name: str | None = None, dtype: str | CacheDtype | None = None) -> CacheShape:
    """``read`` for JSON text."""
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from error
    if isinstance(config, str):
        raise ValueError("a config is a JSON object of keys and values, not a str")
    return read(config, name=name, dtype=dtype)


def read(config: Any, *, name: str | None = None, dtype: str | CacheDtype | None = None) -> CacheShape:
    """The shape of a config: a dict, or the path of a ``config.json`` (``str`` or ``Path``).

    ``dtype`` of keys and values, instead of the model's own. ``ValueError`` names what is missing, malformed or not understood.
    """
    if isinstance(config, str | Path):
        return parse(_text(Path(config)), name=name, dtype=dtype)
    if not isinstance(config, dict):
        raise ValueError(f"a config is a JSON object of keys and values, not a {type(config).__name__}")
    values = _merged(config)
    fields = Fields(values, str(values.get("model_type") or ""))
    _refuse(fields)
    own = _dtype(fields, config)
    layers = _layers(fields, own if dtype is None else dtype, own)
    groups: list[Layers] = []
    for layer in layers:
        if layer not in groups:
            groups.append(layer)
    order = tuple(groups.index(layer) for layer in layers)
    _remark(fields)
    return CacheShape(
        name or str(values.get("_name_or_path") or fields.family or "config"),
        tuple(replace(group, count=order.count(i)) for i, group in enumerate(groups)),
        order,
        fields.family,
        fields.whole("vocab_size"),
        fields.whole("max_position_embeddings", LENGTH_MOST),
        tuple(fields.warnings),
    )


def _text(path: Path) -> str:
    path = path / "config.json" if path.is_dir() else path
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} can't be read: {error}") from error


def _merged(config: dict[str, Any]) -> dict[str, Any]:
    """The text model's keys; what they lack is taken from around them."""
    for key in NESTED:
        if isinstance(config.get(key), dict):
            around = {name: value for name, value in config.items() if name not in NESTED}
            return _merged({**around, **config[key]})
    return config


def _refuse(c: Fields) -> None:
    """What the rules below would read wrongly."""
    if c.family in UNMODELLED:
        raise ValueError(f"models of type {c.family} are not modelled: {UNMODELLED[c.family]}")
    if c.flag("is_encoder_decoder"):
        raise ValueError("is_encoder_decoder: cross-attention over an encoded text is not modelled")
    if c.get("compress_ratios") is not None:
        raise ValueError("compress_ratios: attention that keeps one entry for several tokens is not modelled")


def _dtype(c: Fields, outer: dict[str, Any]) -> CacheDtype:
    """The model's own dtype: the outermost one, which holds for all parts. Quantised weights do not change the cache."""
    named = [place.get(key) for place in (outer, c.values) for key in ("dtype", "torch_dtype")]
    given = next((value for value in named if value is not None), None)
    short = str(given).removeprefix("torch.")
    if short == "float32":
        c.warn("the model's dtype is float32: the cache is counted so, though engines may cast it to 16 bits")
    if short in ("bfloat16", "float16", "float32"):
        return cache_dtype(short)
    said = "config lacks torch_dtype" if given is None else f"torch_dtype is {given!r}"
    c.warn(f"{said}: the cache is counted in bfloat16")
    return cache_dtype("bf16")


def _remark(c: Fields) -> None:
    """What a reader of the result should know beside the numbers."""
    if not c.family:
        c.warn("config lacks model_type: read by the general rules")
    elif c.family not in DEFAULTS and c.family not in ALL_SLIDE and c.family not in PLAIN:
        c.warn(f"model_type {c.family} is not known here: read by the general rules")
    quantised = c.get("quantization_config")
    if isinstance(quantised, dict) and (quantised.get("kv_cache_scheme") or quantised.get("kv_cache_quant_algo")):
        c.warn("quantization_config asks for a quantised cache, which engines may follow: give its dtype to count it so")
    if c.get("use_sconv"):
        c.warn("use_sconv: short convolutions beside the attention keep a few inputs a layer, not counted")
    if c.get("index_head_dim") is not None and c.get("kv_lora_rank") is None:
        c.warn("index_head_dim without latent attention: the indexer's keys are not modelled and not counted")
    for key in ("num_nextn_predict_layers", "mtp_num_hidden_layers"):
        if extra := c.whole(key, LAYERS_MOST, 0):
            c.warn(f"{key} is {extra}: layers that cache only where the model drafts for itself, not counted")


# ---- a kind for each layer --------------------------------------------------------------------------------------------


def _known(name: str, value: Any, table: dict[str, str] = KINDS) -> str:
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} names {value!r}, which is not known here; known are {', '.join(table)}")
    return table[value]


def _fitting(c: Fields, name: str, kinds: list[str]) -> list[str]:
    """As many as there are layers; what stands behind them belongs to the layers for multi-token prediction."""
    layers = c.whole("num_hidden_layers", LAYERS_MOST)
    extra = 0 if layers is None else len(kinds) - layers
    if extra and extra != c.whole("num_nextn_predict_layers", LAYERS_MOST, 0):
        raise ValueError(f"{name} names {len(kinds)} layers, num_hidden_layers is {layers}")
    return kinds[:layers]


def _by_layer_types(c: Fields) -> list[str] | None:
    names = c.items("layer_types")
    if names is None:
        return None
    name = c.named("layer_types")[0]
    kinds = _fitting(c, name, [_known(name, value) for value in names])
    if c.flag("use_sliding_window") is False:
        return ["full" if kind == "sliding" else kind for kind in kinds]
    return kinds


def _by_block_types(c: Fields) -> list[str] | None:
    """RecurrentGemma: a few names, repeated over all layers; its attention is local."""
    names = c.items("block_types")
    if not names:
        return None
    kinds = [_known("block_types", value) for value in names]
    local = c.get("local_window") is not None
    return ["sliding" if local and kinds[i % len(kinds)] == "full" else kinds[i % len(kinds)] for i in range(c.count)]


def _by_attention_types(c: Fields) -> list[str] | None:
    """GPT-Neo: ``[[["global", "local"], 12]]``, names and how often they are repeated."""
    pairs = c.items("attention_types")
    if pairs is None:
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], list) for pair in pairs):
        raise ValueError(f"attention_types is {pairs!r}: it must be a list of [names, how often]")
    kinds = [_known("attention_types", name) for names, times in pairs
             for name in names * whole("attention_types", times, LAYERS_MOST)]  # fmt: skip
    return _fitting(c, "attention_types", kinds)


def _by_letters(c: Fields) -> list[str] | None:
    letters = c.get("hybrid_override_pattern")
    if letters is None:
        return None
    if not isinstance(letters, str):
        raise ValueError(f"hybrid_override_pattern is {letters!r}: it must be a text of letters")
    return _fitting(c, "hybrid_override_pattern", [_known("hybrid_override_pattern", one, LETTERS) for one in letters])


def _by_numbers(c: Fields) -> list[str] | None:
    """MiniMax writes 0 for linear and 1 for full attention, MiMo 0 for full and 1 for sliding."""
    for key, kinds in (("attn_type_list", ("linear", "full")), ("hybrid_layer_pattern", ("full", "sliding"))):
        numbers = c.items(key)
        if numbers is not None:
            return _fitting(c, key, [kinds[whole(key, number, 1, 0)] for number in numbers])
    return None


def _by_blocks(c: Fields) -> list[str] | None:
    """DeciLM and Nemotron-NAS: a dict for each layer, which may have no attention, or other groups of heads."""
    blocks = c.items("block_configs")
    if blocks is None:
        return None
    kinds = []
    for i, block in enumerate(blocks):
        own = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(own, dict):
            raise ValueError(f"block_configs[{i}] lacks attention: what the layer keeps")
        if own.get("window_length") is not None or own.get("sparsify") is not None:
            raise ValueError(f"block_configs[{i}].attention: window_length and sparsify are not modelled")
        kinds.append("none" if own.get("no_op") or own.get("replace_with_linear") else "full")
    return _fitting(c, "block_configs", kinds)


def _by_indices(c: Fields) -> list[str] | None:
    """Lists of layer numbers: what stands in the list, and what the other layers are."""
    state = "conv" if c.get("conv_L_cache") is not None else "linear"
    for key, listed, others in (
        ("linear_attn_config.full_attn_layers", "full", "linear"),
        ("attn_layer_indices", "full", state),
        ("hybrid_layer_ids", "both", "linear"),
        ("local_layer_ids", "sliding", "full"),
        ("cross_attention_layers", "none", "full"),
    ):
        numbers = c.items(key)
        if numbers is None:
            continue
        at = {whole(key, number, LAYERS_MOST, 0) for number in numbers}
        if key.startswith("linear_attn_config") and 0 not in [*at, *(c.items("linear_attn_config.kda_layers") or ())]:
            at = {number - 1 for number in at}  # Kimi counts its layers from 1
        if key == "cross_attention_layers":
            c.warn("cross_attention_layers keep the keys of an image, not of the text: not counted")
        if at and max(at) >= c.count:
            raise ValueError(f"{key} names layer {max(at)} of {c.count}")
        return [listed if i in at else others for i in range(c.count)]
    return None


def _by_period(c: Fields) -> list[str] | None:
    """Full attention every so many layers, a state between: Jamba, Qwen3-Next, Ling 2.5."""
    if (period := c.whole("attn_layer_period")) is not None:
        offset = c.whole("attn_layer_offset", least=0) or 0
        return ["full" if i % period == offset else "linear" for i in range(c.count)]
    period = c.whole("full_attention_interval") or c.whole("layer_group_size")
    return None if period is None else ["linear" if (i + 1) % period else "full" for i in range(c.count)]


def _by_state(c: Fields) -> list[str] | None:
    """All layers alike, with a Mamba state: Falcon-H1 has attention beside it in each layer, pure Mamba models have none."""
    if c.get("mamba_d_state") is None:
        return None
    if c.get("mamba_d_ssm") is not None or c.family == "falcon_h1":
        return ["both"] * c.count
    if c.get("num_attention_heads") is None or c.family in ("mamba", "mamba2", "falcon_mamba"):
        return ["linear"] * c.count
    raise ValueError("config lacks layer_types: which layers are Mamba and which are attention")


def _by_chunks(c: Fields) -> list[str] | None:
    """Llama 4: layers with positions (1 in ``no_rope_layers``, against its name) look at their chunk, every fourth at all."""
    if c.family not in ("llama4", "llama4_text") or c.whole("attention_chunk_size", LENGTH_MOST) is None:
        return None
    rope = c.items("no_rope_layers")
    if not rope:
        every = c.need("no_rope_layer_interval", "every how many layers attention is full")
        return ["chunked" if (i + 1) % every else "full" for i in range(c.count)]
    return _fitting(c, "no_rope_layers", ["chunked" if whole("no_rope_layers", one, 1, 0) else "full" for one in rope])


def _by_windows(c: Fields) -> list[str] | None:
    """One window for all layers, for those from ``max_window_layers`` on, or for all but every n-th."""
    if c.flag("use_sliding_window") is False or c.get("sliding_window") is None:
        return None
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        kinds = [_known("sliding_window_pattern", one, {"L": "sliding", "G": "full"}) for one in pattern]
        return [kinds[i % len(kinds)] for i in range(c.count)]
    if pattern is not None:
        every = whole("sliding_window_pattern", pattern)
        return ["sliding" if (i + 1) % every else "full" for i in range(c.count)]
    if (first := c.whole("max_window_layers", LAYERS_MOST, 0)) is not None:
        return ["sliding" if i >= first else "full" for i in range(c.count)]
    window, longest = c.whole("sliding_window", LENGTH_MOST), c.whole("max_position_embeddings", LENGTH_MOST)
    if window and longest and window >= longest:
        c.warn(f"sliding_window {window} reaches the model's maximum of {longest}: read as full attention")
        return None
    if c.family not in ALL_SLIDE:
        c.warn("the config has a sliding_window and no pattern: all layers are read as sliding")
    return ["sliding"] * c.count


RULES = (
    _by_layer_types, _by_block_types, _by_attention_types, _by_letters, _by_numbers, _by_blocks, _by_indices, _by_period,
    _by_state, _by_chunks, _by_windows,
)  # fmt: skip
"""The first that finds its keys decides; without one, all layers have full attention."""


def _kinds(c: Fields) -> list[str]:
    for rule in RULES:
        kinds = rule(c)
        if kinds is not None:
            return kinds
    return ["full"] * c.count


# ---- what a layer of a kind keeps -------------------------------------------------------------------------------------


def _layers(c: Fields, dtype: str | CacheDtype, own: CacheDtype) -> list[Layers]:
    """One entry of ``count`` 1 for each layer, in order."""
    kinds = _kinds(c)
    if not kinds:
        raise ValueError("config names no layers")
    return _shared(c, [_layer(c, kind, i, dtype, own) for i, kind in enumerate(kinds)])


def _layer(c: Fields, kind: str, i: int, dtype: str | CacheDtype, own: CacheDtype) -> Layers:
    if kind == "none":
        return Layers("none", 1)
    if kind in ("full", "sliding", "chunked"):
        return _attention(c, kind, i, dtype)
    if kind == "both":
        return replace(_attention(c, "full", i, dtype), state=_mamba(c, own).state)
    return {"linear": _linear, "conv": _conv, "lru": _lru}[kind](c, own)


def _attention(c: Fields, kind: str, i: int, dtype: str | CacheDtype) -> Layers:
    window = _window(c, kind, i)
    if c.get("kv_lora_rank") is not None and c.flag("use_mla") is not False:
        return _latent(c, kind, i, window, dtype)
    width = _head_size(c, kind, i)
    return attention(1, _kv_heads(c, kind, i), width, value_width=_value_size(c, kind, i), window=window,
                     chunked=kind == "chunked", k=dtype, v=dtype)  # fmt: skip


def _window(c: Fields, kind: str, i: int) -> int | None:
    if kind == "sliding":
        own = c.whole("local_window", LENGTH_MOST) or c.at("sliding_window", i, LENGTH_MOST)
        return own or c.need("sliding_window", "how many tokens a sliding layer looks at", LENGTH_MOST)
    if kind == "chunked":
        return c.need("attention_chunk_size", "how many tokens a chunk has", LENGTH_MOST)
    return None


def _kv_heads(c: Fields, kind: str, i: int) -> int:
    """Of a sliding layer, of a global one, of a block; else all heads, one, or as many as the config says."""
    if kind == "sliding" and (own := c.at("swa_num_key_value_heads", i)) is not None:
        return own
    own = c.whole("global_num_key_value_heads")
    if kind == "full" and own is not None and c.flag("attention_k_eq_v") is not False:
        return own
    if (group := _block_group(c, i)) is not None:
        return _quotient(c, "num_attention_heads", c.need("num_attention_heads", "which a block's groups divide"), group)
    if (one := _multi_query(c)) is not None:
        return one
    given = c.at("num_key_value_heads", i)
    heads = c.at("num_attention_heads", i)
    if given is not None:
        if heads is not None and heads % given and not c.values.get("num_attention_heads_per_layer"):
            raise ValueError(f"{heads} attention heads can't share {given} key-value heads: one must divide the other")
        return given
    if heads is None:
        raise ValueError("config lacks num_attention_heads: how many heads there are, as num_key_value_heads is missing too")
    return heads


def _block_group(c: Fields, i: int) -> int | None:
    """How many heads share one key in this block of ``block_configs``."""
    blocks = c.get("block_configs")
    own = blocks[i].get("attention") if isinstance(blocks, list) and i < len(blocks) and isinstance(blocks[i], dict) else None
    group = own.get("n_heads_in_group") if isinstance(own, dict) else None
    return None if group is None else whole(f"block_configs[{i}].attention.n_heads_in_group", group)


def _multi_query(c: Fields) -> int | None:
    """Older flags: one head, all heads, or a number under another name. None where the config has none of them.

    Falcon's ``num_kv_heads`` counts only with ``new_decoder_architecture``, ChatGLM's groups with ``multi_query_attention``.
    """
    if c.flag("multi_query_attention"):
        return c.need("multi_query_group_num", "how many key-value heads there are")
    if c.get("attn_config.attn_type") == "multiquery_attention":
        return 1
    if c.flag("multi_query") is None or c.flag("new_decoder_architecture") or c.named("n_head_kv")[1] is not None:
        return None
    return 1 if c.flag("multi_query") else c.need("num_attention_heads", "how many heads there are")


def _head_size(c: Fields, kind: str, i: int) -> int:
    if kind == "full" and (own := c.whole("global_head_dim")) is not None:
        return own
    if kind == "sliding" and (own := c.at("swa_head_dim", i)) is not None:
        return own
    if (given := c.at("head_dim", i)) is not None:
        return given
    hidden = c.need("hidden_size", "the head size, as head_dim is missing too")
    heads = c.need("num_attention_heads", "the head size, as head_dim is missing too")
    size = _quotient(c, "hidden_size", hidden, heads)
    c.warn(f"config lacks head_dim: {size} is taken, hidden_size {hidden} over {heads} heads")
    return size


def _quotient(c: Fields, name: str, whole_: int, parts: int) -> int:
    if whole_ % parts:
        raise ValueError(f"config lacks head_dim: {name} {whole_} does not divide by {parts}")
    return whole_ // parts


def _value_size(c: Fields, kind: str, i: int) -> int | None:
    """Where values have another size than keys; None where they have the same."""
    if c.flag("use_mla") is False:
        return None
    own = c.at("swa_v_head_dim", i) if kind == "sliding" else None
    return own if own is not None else c.at("v_head_dim", i)


def _latent(c: Fields, kind: str, i: int, window: int | None, dtype: str | CacheDtype) -> Layers:
    rank = c.need("kv_lora_rank", "the width of the latent vector")
    rope = c.whole("qk_rope_head_dim", least=0)
    if rope is None:
        raise ValueError("config lacks qk_rope_head_dim: the width of the part with positions")
    index = (c.whole("index_head_dim") or 0) if kind == "full" and _indexes(c, i) else 0
    if index and (c.whole("index_kpool") or 1) > 1:
        c.warn("index_kpool is not modelled: the indexer's keys are counted for every token")
    layer = latent(1, rank, rope or 1, index=index, dtype=dtype)
    token = tuple(part for part in layer.token if rope or part.role != "rope")
    return replace(layer, kind=layer.kind if window is None else kind, token=token, window=window)


def _indexes(c: Fields, i: int) -> bool:
    """Whether a layer of sparse attention has an indexer of its own, or takes over the choice of the one before."""
    types = c.items("indexer_types")
    if types is not None:
        return i >= len(types) or types[i] != "shared"
    pattern = c.get("index_topk_pattern")
    if isinstance(pattern, str | list):
        return i >= len(pattern) or pattern[i] not in ("S", "shared")
    every, offset = c.whole("index_topk_freq") or 1, c.whole("index_skip_topk_offset", least=0)
    return max(i - (2 if offset is None else offset) + 1, 0) % every == 0


def _state_dtype(c: Fields, own: CacheDtype) -> CacheDtype:
    """As the config says; else ``own``, for most the model's dtype, as vLLM's ``auto`` takes it."""
    given = c.get("mamba_ssm_dtype")
    if given is None or given == "auto":
        c.warn(f"config lacks mamba_ssm_dtype: states are counted in {own.name}")
        return own
    return cache_dtype(given)


def _linear(c: Fields, own: CacheDtype) -> Layers:
    """A state for each sequence, of the kind whose keys the config has."""
    if c.get("linear_num_value_heads") is not None:
        return gated_delta(
            1,
            value_heads=c.need("linear_num_value_heads", "the heads of the linear layers' values"),
            key_heads=c.need("linear_num_key_heads", "the heads of the linear layers' keys"),
            key_width=c.need("linear_key_head_dim", "the size of a linear layer's key"),
            value_width=c.need("linear_value_head_dim", "the size of a linear layer's value"),
            kernel=c.need("linear_conv_kernel_dim", "the length of the linear layers' convolution"),
            state=_state_dtype(c, own), conv=own,
        )  # fmt: skip
    if c.get("linear_num_heads") is not None or c.get("short_conv_kernel_size") is not None:
        heads = c.whole("linear_num_heads") or c.need("num_attention_heads", "the heads of the linear layers")
        width = c.whole("linear_head_dim") or _head_size(c, "linear", 0)
        kernel = c.need("linear_conv_kernel_dim", "the length of the linear layers' convolution")
        return gated_delta(1, value_heads=heads, key_heads=heads, key_width=width, value_width=width, kernel=kernel,
                           state=_state_dtype(c, cache_dtype("f32")), conv=own)  # fmt: skip
    if c.get("mamba_d_state") is not None:
        return _mamba(c, own)
    if c.family.startswith(("minimax", "bailing")):
        heads, width = c.need("num_attention_heads", "the heads of lightning attention"), _head_size(c, "linear", 0)
        return Layers("recurrent", 1, state=(Part("state", heads, width * width, _state_dtype(c, cache_dtype("f32"))),))
    raise ValueError("config lacks linear_num_value_heads: the sizes of its linear layers (or those of Mamba: mamba_d_state)")


def _mamba(c: Fields, own: CacheDtype) -> Layers:
    """Mamba-2 where there are groups of B and C, else Mamba-1."""
    size = c.need("mamba_d_state", "the size of a Mamba state")
    kernel = c.need("mamba_d_conv", "the length of the Mamba layers' convolution")
    if c.get("mamba_n_groups") is None:
        return mamba(1, channels=_channels(c), state_size=size, kernel=kernel, state=_state_dtype(c, own), conv=own)
    heads = c.need("mamba_num_heads", "the heads of the Mamba layers")
    return mamba2(1, heads=heads, width=_mamba_width(c, heads), state_size=size,
                  groups=c.need("mamba_n_groups", "the groups of the Mamba layers"), kernel=kernel,
                  state=_state_dtype(c, own), conv=own)  # fmt: skip


def _channels(c: Fields) -> int:
    """Inner channels of Mamba-1. Pure Mamba models call them ``intermediate_size``, which elsewhere is the MLP's."""
    if c.values.get("mamba_expand") is None and (inner := c.whole("intermediate_size")) is not None:
        return inner
    return c.need("mamba_expand", "inner channels over hidden_size") * c.need("hidden_size", "the width of the model")


def _mamba_width(c: Fields, heads: int) -> int:
    given = c.get("mamba_head_dim")
    if given is not None and given != "auto":
        return c.need("mamba_head_dim", "the size of a Mamba head")
    if c.family == "mamba2" and (width := c.whole("head_dim")) is not None:
        return width
    return _quotient(c, "the inner width", c.whole("mamba_d_ssm") or _channels(c), heads)


def _conv(c: Fields, own: CacheDtype) -> Layers:
    """LFM2's short convolution: the last inputs of every channel."""
    past = c.need("conv_L_cache", "the length of the convolution") - 1
    width = c.whole("conv_dim") or c.need("hidden_size", "the width of the convolution")
    return Layers("recurrent", 1, state=(Part("conv", width, 1, own, max(1, past)),))


def _lru(c: Fields, own: CacheDtype) -> Layers:
    """RecurrentGemma (arXiv 2404.07839): one float32 number for each channel, behind a short convolution."""
    width = c.whole("lru_width") or c.need("hidden_size", "the width of the recurrence")
    past = (c.whole("conv1d_width") or 4) - 1
    return Layers("recurrent", 1, state=(Part("state", width, 1, cache_dtype("f32")), Part("conv", width, 1, own, max(1, past))))


def _shared(c: Fields, layers: list[Layers]) -> list[Layers]:
    """Layers that read another's cache: the last ``num_kv_shared_layers``, or all but the first of each ``cla_share_factor``."""
    last = c.whole("num_kv_shared_layers", LAYERS_MOST, 0) or 0
    if last >= len(layers):
        raise ValueError(f"num_kv_shared_layers is {last}: some of the {len(layers)} layers must keep a cache")
    factor = 1 if c.flag("use_cla") is False else c.whole("cla_share_factor", LAYERS_MOST) or 1
    if factor > 1 and c.flag("use_cla") is None:
        c.warn(f"config lacks use_cla: cla_share_factor {factor} is followed")
    reads = [i >= len(layers) - last or bool(i % factor) for i in range(len(layers))]
    return [Layers("shared", 1) if reads[i] and layer.token else layer for i, layer in enumerate(layers)]
