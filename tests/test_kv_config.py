"""Configs of the Hub, read to a cache shape: every rule with a real file's numbers, and every rule's wrong twin caught."""

import contextlib
import json
import re

import pytest

from specdec.kv import config
from specdec.kv.config import parse, read
from specdec.kv.plan import Plan
from specdec.kv.shape import F32, Layers, Part

S, F, L = "sliding_attention", "full_attention", "linear_attention"
LLAMA = {"model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 4096, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072}  # fmt: skip
QWEN_2 = {"model_type": "qwen2", "torch_dtype": "bfloat16", "hidden_size": 3584, "num_attention_heads": 28,
          "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072, "max_window_layers": 21,
          "use_sliding_window": False, "max_position_embeddings": 32768}  # fmt: skip
MLA = {"torch_dtype": "bfloat16", "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
       "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}  # fmt: skip
LINEAR = {"linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
          "linear_conv_kernel_dim": 4}  # fmt: skip
DELTA = 32 * 128 * 128 * 2 + 3 * (32 * 128 + 2 * 16 * 128) * 2  # a layer's state and its convolution, both in bfloat16
NEMOTRON = {"model_type": "nemotron_h", "torch_dtype": "bfloat16", "hidden_size": 2688, "num_attention_heads": 32,
            "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128,
            "n_groups": 8, "conv_kernel": 4, "expand": 2, "mamba_ssm_cache_dtype": "float32"}  # fmt: skip
PATTERN = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
MAMBA_2 = 64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2
GEMMA_4 = {"model_type": "gemma4_text", "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "hidden_size": 2816,
           "global_head_dim": 512, "sliding_window": 1024, "attention_k_eq_v": True}  # fmt: skip
KIMI_KDA = [i for i in range(1, 28) if i not in (4, 8, 12, 16, 20, 24, 27)]
NAS = [{"attention": {"n_heads_in_group": 8, "no_op": False}}, {"attention": {"n_heads_in_group": None, "no_op": True}},
       {"attention": {"n_heads_in_group": 16}}, {"attention": {"replace_with_linear": True}}]  # fmt: skip

# name: config, bytes for every token, bytes for every token that is still in a window, bytes of states for a sequence
HUB = {
    "Llama 3.1 8B": (LLAMA, 2 * 32 * 8 * 128 * 2, 0, 0),
    "OPT 125M: null KV heads are all heads": (
        {"model_type": "opt", "torch_dtype": "float16", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12,
         "num_key_value_heads": None}, 2 * 12 * 12 * 64 * 2, 0, 0),
    "GPT-2": ({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024}, 36864, 0, 0),
    "GPT-J": ({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048}, 2 * 28 * 4096 * 2, 0, 0),
    "BLOOM": ({"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "seq_length": 2048},
              2 * 70 * 14336 * 2, 0, 0),
    "StarCoder: multi-query": (
        {"model_type": "gpt_bigcode", "n_embd": 2048, "n_head": 16, "n_layer": 24, "multi_query": True}, 2 * 24 * 128 * 2, 0, 0),
    "Falcon 7B: num_kv_heads is stale": (
        {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32, "num_kv_heads": 71,
         "multi_query": True, "new_decoder_architecture": False}, 2 * 32 * 64 * 2, 0, 0),
    "Falcon 40B": ({"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60,
                    "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True}, 2 * 60 * 8 * 64 * 2, 0, 0),
    "Falcon 40B, its first file": (
        {"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60},
        2 * 60 * 8 * 64 * 2, 0, 0),
    "Falcon RW 1B": ({"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32, "num_hidden_layers": 24,
                      "num_kv_heads": 32, "multi_query": False, "new_decoder_architecture": False}, 2 * 24 * 2048 * 2, 0, 0),
    "MPT": ({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "max_seq_len": 2048,
             "attn_config": {"attn_type": "multihead_attention"}}, 2 * 32 * 4096 * 2, 0, 0),
    "DBRX": ({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "attn_config": {"kv_n_heads": 8}},
             2 * 40 * 8 * 128 * 2, 0, 0),
    "ChatGLM2": ({"model_type": "chatglm", "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True,
                  "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 28, "seq_length": 8192,
                  "padded_vocab_size": 65024}, 2 * 28 * 2 * 128 * 2, 0, 0),
    "Qwen 1.8B": ({"model_type": "qwen", "hidden_size": 2048, "kv_channels": 128, "num_attention_heads": 16,
                   "num_hidden_layers": 24}, 2 * 24 * 16 * 128 * 2, 0, 0),
    "Qwen2.5 7B: a stale window": (QWEN_2, 2 * 28 * 4 * 128 * 2, 0, 0),
    "Qwen2, its window on": ({**QWEN_2, "use_sliding_window": True}, 2 * 21 * 4 * 128 * 2, 2 * 7 * 4 * 128 * 2, 0),
    "Qwen2, flag absent": ({k: v for k, v in QWEN_2.items() if k != "use_sliding_window"}, 2 * 28 * 4 * 128 * 2, 0, 0),
    "Qwen3 0.6B: head_dim is not hidden / heads": (
        {"model_type": "qwen3", "head_dim": 128, "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 28,
         "num_key_value_heads": 8, "sliding_window": None, "use_sliding_window": False}, 114688, 0, 0),
    "GLM 4.7": ({"model_type": "glm4_moe", "hidden_size": 5120, "num_attention_heads": 96, "num_hidden_layers": 92,
                 "num_key_value_heads": 8, "head_dim": 128}, 2 * 92 * 8 * 128 * 2, 0, 0),
    "OpenELM: heads by layer": ({"model_type": "openelm", "head_dim": 64, "model_dim": 1280, "num_transformer_layers": 3,
                                 "num_kv_heads": [3, 4, 5], "num_query_heads": [12, 16, 20]}, 2 * (3 + 4 + 5) * 64 * 2, 0, 0),
    "Nemotron-NAS": ({"model_type": "nemotron-nas", "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 4,
                      "num_key_value_heads": None, "block_configs": NAS}, 2 * (8 + 4) * 128 * 2, 0, 0),
    "LLaVA: its text config says llama and no more": (
        {"model_type": "llava", "torch_dtype": "float16", "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
         "vision_config": {"num_hidden_layers": 24, "hidden_size": 1024}}, 2 * 32 * 32 * 128 * 2, 0, 0),
    "Pixtral: no heads, but head_dim and KV heads": (
        {"model_type": "llava", "text_config": {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128,
         "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": None}}, 2 * 40 * 8 * 128 * 2, 0, 0),
    "InternVL: llm_config": ({"model_type": "internvl_chat", "llm_config": {**LLAMA, "model_type": "internlm2"}},
                             131072, 0, 0),
    "Qwen2.5-Omni: two levels down": (
        {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": {**QWEN_2, "model_type": "qwen2_5_omni_text"}},
         "talker_config": {"num_hidden_layers": 24}}, 2 * 28 * 4 * 128 * 2, 0, 0),
    "an EAGLE-3 draft in the speculators' format": (
        {"speculators_model_type": "eagle3", "transformer_layer_config": {**LLAMA, "num_hidden_layers": 1}},
        4096, 0, 0),
    "Llama 3.2 Vision: cross-attention layers keep no text": (
        {"model_type": "mllama", "text_config": {**LLAMA, "model_type": "mllama_text_model", "num_hidden_layers": 40,
         "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}}, 131072, 0, 0),
    "Mistral 7B v0.1": ({**LLAMA, "model_type": "mistral", "sliding_window": 4096}, 0, 131072, 0),
    "Mistral 7B v0.3": ({**LLAMA, "model_type": "mistral", "sliding_window": None}, 131072, 0, 0),
    "Phi-3 mini 4k": ({"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "num_hidden_layers": 32,
                       "num_key_value_heads": 32, "sliding_window": 2047, "max_position_embeddings": 4096}, 0, 393216, 0),
    "Phi-4 mini: a window past the end": (
        {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 24, "num_hidden_layers": 32, "num_key_value_heads": 8,
         "sliding_window": 262144, "max_position_embeddings": 131072}, 2 * 32 * 8 * 128 * 2, 0, 0),
    "Gemma 2 27B": ({"model_type": "gemma2", "head_dim": 128, "hidden_size": 4608, "num_attention_heads": 32,
                     "num_hidden_layers": 46, "num_key_value_heads": 16, "sliding_window": 4096}, 188416, 188416, 0),
    "Gemma 3 4B: heads and their size are the class's": (
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
         "sliding_window": 1024}}, 2 * 5 * 4 * 256 * 2, 2 * 29 * 4 * 256 * 2, 0),
    "Gemma 3 270M": ({"model_type": "gemma3_text", "head_dim": 256, "hidden_size": 640, "num_attention_heads": 4,
                      "num_hidden_layers": 18, "num_key_value_heads": 1, "sliding_window": 512, "_sliding_window_pattern": 6,
                      "layer_types": ([S] * 5 + [F]) * 3}, 3072, 15360, 0),
    "Gemma 3n: the last 15 layers share": (
        {"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text", "head_dim": 256, "num_attention_heads": 8,
         "num_hidden_layers": 35, "num_key_value_heads": 2, "num_kv_shared_layers": 15, "sliding_window": 512,
         "layer_types": ([S] * 4 + [F]) * 7}}, 2 * 4 * 2 * 256 * 2, 2 * 16 * 2 * 256 * 2, 0),
    "Gemma 4 26B: wide global heads": (
        {"model_type": "gemma4", "text_config": {**GEMMA_4, "num_hidden_layers": 30, "num_global_key_value_heads": 2,
         "layer_types": ([S] * 5 + [F]) * 5}}, 20480, 204800, 0),
    "Gemma 4 E4B": (
        {"model_type": "gemma4", "text_config": {**GEMMA_4, "num_hidden_layers": 42, "num_key_value_heads": 2,
         "num_attention_heads": 8, "num_kv_shared_layers": 18, "attention_k_eq_v": False, "num_global_key_value_heads": None,
         "layer_types": ([S] * 5 + [F]) * 7}}, 16384, 40960, 0),
    "Command R7B": ({"model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
                     "num_key_value_heads": 8, "sliding_window": 4096, "sliding_window_pattern": 4, "layer_switch": 4},
                    2 * 8 * 8 * 128 * 2, 2 * 24 * 8 * 128 * 2, 0),
    "EXAONE 4: a pattern of letters": (
        {"model_type": "exaone4", "hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 64,
         "num_key_value_heads": 8, "sliding_window": 4096, "sliding_window_pattern": "LLLG"},
        2 * 16 * 8 * 128 * 2, 2 * 48 * 8 * 128 * 2, 0),
    "gpt-oss 20b": ({"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "num_attention_heads": 64,
                     "num_hidden_layers": 24, "num_key_value_heads": 8, "sliding_window": 128, "layer_types": [S, F] * 12},
                    24576, 24576, 0),
    "Llama 4 Scout": (
        {"model_type": "llama4", "torch_dtype": "bfloat16", "text_config": {"model_type": "llama4_text", "hidden_size": 5120,
         "attention_chunk_size": 8192, "head_dim": 128, "num_attention_heads": 40, "num_hidden_layers": 48,
         "num_key_value_heads": 8}}, 49152, 147456, 0),
    "Llama 4, its list of ropes": (
        {"model_type": "llama4_text", "attention_chunk_size": 8192, "head_dim": 128, "num_attention_heads": 40,
         "num_hidden_layers": 4, "num_key_value_heads": 8, "no_rope_layers": [1, 1, 0, 1]},
        1 * 4096, 3 * 4096, 0),
    "Step 3.5: extra layer types are those of prediction layers": (
        {"model_type": "step3p5", "head_dim": 128, "hidden_size": 4096, "num_attention_heads": 64, "num_attention_groups": 8,
         "num_hidden_layers": 5, "num_nextn_predict_layers": 3, "sliding_window": 512, "layer_types": [F, S, S, S, F, S, S, S],
         "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 4, "head_dim": 64}},
        2 * 2 * 8 * 128 * 2, 2 * 3 * 4 * 64 * 2, 0),
    "MiMo-V2-Flash: keys wider than values": (
        {"model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 48, "num_attention_heads": 64,
         "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "swa_num_attention_heads": 64,
         "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128,
         "sliding_window_size": 128, "attention_chunk_size": 128,
         "hybrid_layer_pattern": [int(i != 0 and (i + 1) % 6 != 0) for i in range(48)]},
        9 * 4 * (192 + 128) * 2, 39 * 8 * (192 + 128) * 2, 0),
    "Inkling: local_layer_ids": (
        {"model_type": "inkling", "head_dim": 128, "num_hidden_layers": 6, "num_attention_heads": 32, "num_key_value_heads": 8,
         "swa_num_key_value_heads": 16, "swa_head_dim": 128, "sliding_window_size": 512, "local_layer_ids": [0, 1, 2, 3, 4]},
        2 * 8 * 128 * 2, 2 * 5 * 16 * 128 * 2, 0),
    "GPT-Neo": ({"model_type": "gpt_neo", "hidden_size": 2048, "num_heads": 16, "num_layers": 24, "window_size": 256,
                 "attention_types": [[["global", "local"], 12]]}, 2 * 12 * 2048 * 2, 2 * 12 * 2048 * 2, 0),
    "DeepSeek V3": ({**MLA, "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_nextn_predict_layers": 1}, 70272, 0, 0),
    "DeepSeek V3.2": ({**MLA, "model_type": "deepseek_v32", "num_hidden_layers": 61, "index_head_dim": 128},
                      70272 + 61 * 132, 0, 0),
    "GLM 5.2: an indexer in every fourth layer": (
        {**MLA, "model_type": "glm_moe_dsa", "num_hidden_layers": 6, "index_head_dim": 128,
         "indexer_types": ["full", "full", "shared", "shared", "shared", "full"]}, 6 * 1152 + 3 * 132, 0, 0),
    "GLM 5.2, the same by its frequency": (
        {**MLA, "model_type": "glm_moe_dsa", "num_hidden_layers": 6, "index_head_dim": 128, "index_topk_freq": 4},
        6 * 1152 + 3 * 132, 0, 0),
    "LongCat Flash: two attentions a layer": (
        {**MLA, "model_type": "longcat_flash", "num_layers": 28, "hidden_size": 6144}, 56 * 1152, 0, 0),
    "MiniCPM3": ({"model_type": "minicpm3", "hidden_size": 2560, "num_attention_heads": 40, "num_key_value_heads": 40,
                  "num_hidden_layers": 62, "kv_lora_rank": 256, "qk_rope_head_dim": 32}, 62 * 288 * 2, 0, 0),
    "DeepSeek-VL2 tiny: use_mla is off": (
        {"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2", "hidden_size": 1280,
         "num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12, "use_mla": False, "kv_lora_rank": None,
         "qk_rope_head_dim": 0, "v_head_dim": 0}}, 2 * 12 * 1280 * 2, 0, 0),
    "Hunyuan Large: every second layer shares": (
        {"model_type": "hunyuan", "hidden_size": 6400, "num_attention_heads": 80, "num_hidden_layers": 64,
         "num_key_value_heads": 8, "use_cla": True, "cla_share_factor": 2}, 81920, 0, 0),
    "Hunyuan A13B: a factor that is off": (
        {"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
         "num_key_value_heads": 8, "attention_head_dim": 128, "use_cla": False, "cla_share_factor": 2}, 131072, 0, 0),
    "Qwen3-Next": ({**LINEAR, "model_type": "qwen3_next", "hidden_size": 2048, "head_dim": 256, "num_attention_heads": 16,
                    "num_key_value_heads": 2, "num_hidden_layers": 48, "full_attention_interval": 4,
                    "use_sliding_window": False}, 2 * 12 * 2 * 256 * 2, 0, 36 * DELTA),
    "Qwen3.5 397B": ({"model_type": "qwen3_5_moe", "text_config": {**LINEAR, "linear_num_value_heads": 64,
                      "model_type": "qwen3_5_moe_text", "head_dim": 256, "num_attention_heads": 32, "num_key_value_heads": 2,
                      "num_hidden_layers": 60, "layer_types": [L, L, L, F] * 15, "mtp_num_hidden_layers": 1,
                      "mamba_ssm_dtype": "float32"}},
                     2 * 15 * 2 * 256 * 2, 0, 45 * (64 * 128 * 128 * 4 + 3 * (64 * 128 + 4096) * 2)),
    "Kimi Linear: layers counted from 1": (
        {"model_type": "kimi_linear", "hidden_size": 2304, "head_dim": 72, "num_attention_heads": 32, "num_key_value_heads": 32,
         "num_hidden_layers": 27, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "linear_attn_config": {
             "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4, "kda_layers": KIMI_KDA,
             "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]}},
        7 * 1152, 0, 20 * (32 * 128 * 128 * 4 + 3 * 3 * 32 * 128 * 2)),
    "MiniMax-01": ({"model_type": "minimax_text_01", "hidden_size": 6144, "head_dim": 128, "num_attention_heads": 64,
                    "num_key_value_heads": 8, "num_hidden_layers": 16, "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 2},
                   2 * 2 * 8 * 128 * 2, 0, 14 * 64 * 128 * 128 * 4),
    "Jamba": ({"model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
               "num_key_value_heads": 8, "num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4,
               "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "sliding_window": None},
              16384, 0, 28 * (8192 * 16 * 2 + 8192 * 3 * 2)),
    "Falcon Mamba: its expand is stale": (
        {"model_type": "falcon_mamba", "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64, "expand": 16,
         "state_size": 16, "conv_kernel": 4}, 0, 0, 64 * (8192 * 16 * 2 + 8192 * 3 * 2)),
    "Codestral Mamba": ({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64,
                         "state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2},
                        0, 0, 64 * (128 * 64 * 128 * 2 + 3 * (8192 + 2 * 8 * 128) * 2)),
    "Nemotron 3 Nano": ({**NEMOTRON, "num_hidden_layers": 52, "hybrid_override_pattern": PATTERN}, 6144, 0, 23 * MAMBA_2),
    "Nemotron 3 Nano, its newer file": (
        {**NEMOTRON, "layers_block_type": [{"M": "mamba", "E": "moe", "*": "attention"}[c] for c in PATTERN]},
        6144, 0, 23 * MAMBA_2),
    "Bamba": ({"model_type": "bamba", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
               "num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27], "mamba_n_heads": 128, "mamba_d_head": "auto",
               "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2},
              2 * 3 * 8 * 128 * 2, 0, 29 * (8192 * 128 * 2 + 3 * (8192 + 256) * 2)),
    "Granite 4 tiny": (
        {"model_type": "granitemoehybrid", "hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 4,
         "num_hidden_layers": 40, "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
         "mamba_d_conv": 4, "mamba_expand": 2, "layer_types": (["mamba"] * 9 + ["attention"]) * 4},
        2 * 4 * 4 * 128 * 2, 0, 36 * (3072 * 128 * 2 + 3 * (3072 + 256) * 2)),
    "Falcon-H1: attention and Mamba in every layer": (
        {"model_type": "falcon_h1", "hidden_size": 2048, "head_dim": 128, "num_attention_heads": 8, "num_key_value_heads": 2,
         "num_hidden_layers": 24, "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_ssm": 3072, "mamba_n_groups": 1,
         "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2},
        2 * 24 * 2 * 128 * 2, 0, 24 * (3072 * 256 * 2 + 3 * (3072 + 512) * 2)),
    "Zamba2: attention beside Mamba in some": (
        {"model_type": "zamba2", "hidden_size": 2560, "attention_head_dim": 160, "kv_channels": 80, "num_attention_heads": 32,
         "num_key_value_heads": 32, "num_hidden_layers": 3, "n_mamba_heads": 80, "mamba_headdim": 64, "mamba_ngroups": 1,
         "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2, "layers_block_type": ["mamba", "hybrid", "mamba"]},
        2 * 32 * 160 * 2, 0, 3 * (5120 * 64 * 2 + 3 * (5120 + 128) * 2)),
    "LFM2": ({"model_type": "lfm2", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8,
              "num_hidden_layers": 16, "conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
             2 * 6 * 8 * 64 * 2, 0, 10 * 2 * 2048 * 2),
    "RecurrentGemma": ({"model_type": "recurrent_gemma", "hidden_size": 2560, "head_dim": 256, "num_attention_heads": 10,
                        "num_key_value_heads": 1, "num_hidden_layers": 26,
                        "_block_types": ["recurrent", "recurrent", "attention"], "attention_window_size": 2048,
                        "lru_width": 2560, "conv1d_width": 4},
                       0, 2 * 8 * 256 * 2, 18 * (2560 * 4 + 3 * 2560 * 2)),
}  # fmt: skip


def sizes(values):
    """The three numbers of a config."""
    shape = read(values)
    window = sum(group.count * group.token_bytes() for group in shape.groups if group.window is not None)
    states = sum(group.count * group.state_bytes() for group in shape.groups)
    return shape.bytes_per_token(), window, states


@pytest.mark.parametrize("name", HUB)
def test_real_configs_give_the_bytes_that_their_layers_keep(name):
    values, *expected = HUB[name]
    assert list(sizes(values)) == expected


@pytest.mark.parametrize("name", HUB)
def test_text_and_file_read_like_the_dict(name, tmp_path):
    values = HUB[name][0]
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps(values), encoding="utf-8")
    shape = read(values)
    assert parse(json.dumps(values)) == shape
    assert read(tmp_path / "config.json") == read(str(tmp_path)) == shape
    assert shape.warnings == parse(json.dumps(values)).warnings


# ---- order, names, dtypes, warnings ----------------------------------------------------------------------------------


def kinds(values):
    """Each layer's kind, in order."""
    shape = read(values)
    return [shape.groups[i].kind for i in shape.order]


def test_the_order_is_that_of_the_layers():
    assert kinds(HUB["Gemma 3n: the last 15 layers share"][0]) == (["sliding"] * 4 + ["full"]) * 4 + ["shared"] * 15
    assert kinds(HUB["Gemma 2 27B"][0]) == ["sliding", "full"] * 23
    assert kinds(HUB["Llama 4 Scout"][0]) == (["chunked"] * 3 + ["full"]) * 12
    assert kinds(HUB["Qwen2, its window on"][0]) == ["full"] * 21 + ["sliding"] * 7
    assert kinds(HUB["Nemotron-NAS"][0]) == ["full", "none", "full", "none"]
    assert [i for i, kind in enumerate(kinds(HUB["Jamba"][0])) if kind == "full"] == [4, 12, 20, 28]
    assert [i for i, kind in enumerate(kinds(HUB["Kimi Linear: layers counted from 1"][0])) if kind == "latent"] == [
        3, 7, 11, 15, 19, 23, 26]  # fmt: skip
    assert kinds(HUB["Hunyuan Large: every second layer shares"][0]) == ["full", "shared"] * 32
    letters = {"M": "recurrent", "*": "full", "E": "none"}
    assert kinds(HUB["Nemotron 3 Nano"][0]) == [letters[letter] for letter in PATTERN]


def test_windows_and_chunks_have_their_lengths():
    assert [group.name for group in read(HUB["Gemma 3 270M"][0]).groups] == ["sliding 512", "full"]
    assert [group.name for group in read(HUB["Llama 4 Scout"][0]).groups] == ["chunked 8192", "full"]
    assert read(HUB["RecurrentGemma"][0]).groups[1].window == 2048
    assert read(HUB["GPT-Neo"][0]).groups[1].window == 256


def test_name_family_vocabulary_and_longest():
    shape = read({**LLAMA, "_name_or_path": "meta/eight"})
    assert (shape.name, shape.family, shape.vocabulary, shape.longest) == ("meta/eight", "llama", 128256, 131072)
    assert read(LLAMA).name == "llama" and read(LLAMA, name="mine").name == "mine"
    glm = read(HUB["ChatGLM2"][0])
    assert (glm.vocabulary, glm.longest) == (65024, 8192)
    assert read(HUB["GPT-2"][0]).longest == 1024 and read(HUB["GPT-2"][0]).vocabulary is None
    assert read(HUB["Llama 4 Scout"][0]).family == "llama4_text"


def test_the_cache_has_the_models_dtype_or_the_one_that_is_asked_for():
    assert read({**LLAMA, "torch_dtype": "float32"}).bytes_per_token() == 2 * 131072
    assert read({**LLAMA, "torch_dtype": "float32"}).warnings[0].startswith("the model's dtype is float32")
    assert read(LLAMA, dtype="fp8").bytes_per_token() == 65536
    assert read(LLAMA, dtype="q8_0").bytes_per_token() == 131072 // 2 * 34 // 32
    quantised = {**LLAMA, "quantization_config": {"quant_method": "fp8"}}
    assert read(quantised) == read(LLAMA) and read(quantised).warnings == read(LLAMA).warnings
    asks = {**LLAMA, "quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}
    assert "asks for a quantised cache" in read(asks).warnings[-1] and read(asks) == read(LLAMA)


def test_outer_dtype_holds_for_all_parts_and_states_do_not_follow_the_caches_dtype():
    nested = {"torch_dtype": "bfloat16", "text_config": {**LLAMA, "torch_dtype": "float32"}}
    assert read(nested).bytes_per_token() == 131072
    nano, *_, states = HUB["Nemotron 3 Nano"]
    eight = read(nano, dtype="fp8")
    assert eight.bytes_per_token() == 3072 and eight.fixed_bytes() == states
    half = read({**nano, "mamba_ssm_cache_dtype": "bfloat16"})
    assert half.fixed_bytes() == states - 23 * 64 * 64 * 128 * 2


def test_states_take_the_models_dtype_unless_the_config_or_the_family_says_otherwise():
    """Jamba names none; Kimi's and lightning attention's states are float32 in their own code."""

    def state(name, **more):
        shape = read({**HUB[name][0], **more})
        return next(part.dtype.bytes for group in shape.groups for part in group.state if part.role == "state")

    for dtype, size in (("bfloat16", 2), ("float16", 2), ("float32", 4)):
        assert state("Jamba", torch_dtype=dtype) == state("Codestral Mamba", torch_dtype=dtype) == size
        assert state("Qwen3-Next", torch_dtype=dtype) == size
        assert state("Kimi Linear: layers counted from 1", torch_dtype=dtype) == state("MiniMax-01", torch_dtype=dtype) == 4
    assert state("Jamba", mamba_ssm_dtype="float32") == 4
    assert state("Nemotron 3 Nano", mamba_ssm_cache_dtype="auto") == 2
    assert state("MiniMax-01", mamba_ssm_dtype="bfloat16") == 2


def test_a_latent_cache_takes_the_mixed_layout():
    assert read(HUB["DeepSeek V3"][0], dtype="fp8_ds_mla").bytes_per_token() == 61 * 656


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Llama 3.1 8B", "config lacks head_dim: 128 is taken, hidden_size 4096 over 32 heads"),
        ("GPT-2", "config lacks torch_dtype: the cache is counted in bfloat16"),
        ("Gemma 3 4B: heads and their size are the class's", "config lacks head_dim: 256 is taken, the default of gemma3_text"),
        ("Gemma 2 27B", "config lacks sliding_window_pattern: 2 is taken, the default of gemma2"),
        ("Phi-4 mini: a window past the end",
         "sliding_window 262144 reaches the model's maximum of 131072: read as full attention"),
        ("DeepSeek V3", "num_nextn_predict_layers is 1: layers that cache only where the model drafts for itself, not counted"),
        ("Jamba", "config lacks mamba_ssm_dtype: states are counted in bf16"),
        ("MiniMax-01", "config lacks mamba_ssm_dtype: states are counted in f32"),
        ("Inkling: local_layer_ids", "model_type inkling is not known here: read by the general rules"),
    ],
)  # fmt: skip
def test_what_was_filled_in_is_said(name, sentence):
    assert sentence in read(HUB[name][0]).warnings


def test_a_complete_config_of_a_known_family_has_no_warnings():
    assert read({**LLAMA, "head_dim": 128}).warnings == ()


def test_a_guessed_pattern_is_said_and_an_unknown_model_too():
    strange = read({**LLAMA, "model_type": "brand_new", "sliding_window": 512})
    assert strange.bytes_per_token() == 0 and strange.groups[0].window == 512
    assert "the config has a sliding_window and no pattern: all layers are read as sliding" in strange.warnings
    assert "model_type brand_new is not known here: read by the general rules" in strange.warnings
    assert "config lacks model_type: read by the general rules" in read({**LLAMA, "model_type": None}).warnings


# ---- what is refused --------------------------------------------------------------------------------------------------


def without(*keys, base=LLAMA):
    return {key: value for key, value in base.items() if key not in keys} | {"model_type": "brand_new"}


BAD = [
    ([], "not a list"),
    ([LLAMA], "not a list"),
    (None, "not a NoneType"),
    (7, "not a int"),
    ({}, "config lacks num_hidden_layers: how many layers there are"),
    (without("num_hidden_layers"), "config lacks num_hidden_layers: how many layers there are"),
    (without("num_attention_heads", "num_key_value_heads"), "config lacks num_attention_heads"),
    (without("num_attention_heads"), "config lacks num_attention_heads: the head size, as head_dim is missing too"),
    (without("hidden_size"), "config lacks hidden_size: the head size, as head_dim is missing too"),
    ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers is 0: it must be at least 1"),
    ({**LLAMA, "num_hidden_layers": -4}, "num_hidden_layers is -4: it must be at least 1"),
    ({**LLAMA, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000: more than 10,000 can't be meant"),
    ({**LLAMA, "hidden_size": 10**30}, "more than 10,000,000 can't be meant"),
    ({**LLAMA, "num_key_value_heads": True}, "num_key_value_heads is True: it must be a whole number"),
    ({**LLAMA, "num_key_value_heads": 2.5}, "num_key_value_heads is 2.5: it must be a whole number"),
    ({**LLAMA, "num_key_value_heads": "8"}, "num_key_value_heads is '8': it must be a whole number"),
    ({**LLAMA, "num_key_value_heads": float("inf")}, "num_key_value_heads is inf: it must be a whole number"),
    ({**LLAMA, "num_key_value_heads": 5}, "32 attention heads can't share 5 key-value heads"),
    ({**LLAMA, "head_dim": 0}, "head_dim is 0: it must be at least 1"),
    ({**LLAMA, "num_attention_heads": 24}, "config lacks head_dim: hidden_size 4096 does not divide by 24"),
    ({**LLAMA, "vocab_size": -1}, "vocab_size is -1: it must be at least 1"),
    ({**LLAMA, "max_position_embeddings": 1e30}, "can't be meant"),
    ({**LLAMA, "model_type": "mistral", "sliding_window": 0}, "sliding_window is 0: it must be at least 1"),
    ({**LLAMA, "model_type": "mistral", "sliding_window": [1, 2]}, "sliding_window is [1, 2]: it must be a whole number"),
    ({**QWEN_2, "use_sliding_window": "no"}, "use_sliding_window is 'no': it must be true or false"),
    ({**LLAMA, "layer_types": [F] * 31 + ["tree_attention"]}, "layer_types names 'tree_attention', which is not known here"),
    ({**LLAMA, "layer_types": [F] * 31 + [3]}, "layer_types names 3, which is not known here"),
    ({**LLAMA, "layer_types": F}, "layer_types is 'full_attention': it must be a list"),
    ({**LLAMA, "layer_types": [F] * 31}, "layer_types names 31 layers, num_hidden_layers is 32"),
    ({**LLAMA, "layer_types": [S] * 32}, "config lacks sliding_window: how many tokens a sliding layer looks at"),
    ({**LLAMA, "layer_types": [L] * 32}, "config lacks linear_num_value_heads"),
    ({**LLAMA, **LINEAR, "layer_types": [L] * 32, "linear_num_key_heads": None}, "config lacks linear_num_key_heads"),
    ({**LLAMA, "layer_types": []}, "layer_types names 0 layers, num_hidden_layers is 32"),
    ({**NEMOTRON, "hybrid_override_pattern": "M*X"}, "hybrid_override_pattern names 'X', which is not known here"),
    ({**NEMOTRON, "num_hidden_layers": 3}, "config lacks layer_types: which layers are Mamba and which are attention"),
    ({**NEMOTRON, "hybrid_override_pattern": 7}, "hybrid_override_pattern is 7: it must be a text of letters"),
    ({**LLAMA, "model_type": "exaone4", "sliding_window": 9, "sliding_window_pattern": ""}, "sliding_window_pattern is ''"),
    ({**LLAMA, "model_type": "exaone4", "sliding_window": 9, "sliding_window_pattern": "LLX"}, "names 'X', which is not known"),
    ({**LLAMA, "attn_type_list": [0, 2] * 16}, "attn_type_list is 2: more than 1 can't be meant"),
    ({**LLAMA, "local_layer_ids": [40], "sliding_window": 5}, "local_layer_ids names layer 40 of 32"),
    ({**LLAMA, "num_kv_shared_layers": 32}, "num_kv_shared_layers is 32: some of the 32 layers must keep a cache"),
    ({**LLAMA, "num_key_value_heads": [8, 8]}, "num_key_value_heads holds 2 numbers: layer 2 has none"),
    ({**LLAMA, "kv_lora_rank": 512}, "config lacks qk_rope_head_dim: the width of the part with positions"),
    ({**LLAMA, "block_configs": [1] * 32}, "block_configs[0] lacks attention"),
    ({**LLAMA, "compress_ratios": [0, 4]}, "compress_ratios: attention that keeps one entry for several tokens"),
    ({**LLAMA, "is_encoder_decoder": True}, "is_encoder_decoder: cross-attention over an encoded text is not modelled"),
    ({**LLAMA, "model_type": "bert"}, "models of type bert are not modelled: an encoder keeps no cache"),
    ({**LLAMA, "model_type": "deepseek_v4"}, "models of type deepseek_v4 are not modelled"),
]


@pytest.mark.parametrize(("values", "message"), BAD, ids=[message[:60] for _, message in BAD])
def test_bad_configs_get_one_clear_error(values, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(values)


def test_layers_without_a_cache_are_read_and_no_plan_is_made_of_them():
    shape = read({**LLAMA, "layer_types": ["mlp"] * 32})
    assert shape.empty and shape.layers == 32
    with pytest.raises(ValueError, match="llama keeps nothing: no layer has a cache"):
        Plan(shape)


@pytest.mark.parametrize("text", ["", "{", "{'num_hidden_layers': 3}", "[" * 100_000, "nonsense"])
def test_malformed_json_says_so(text):
    with pytest.raises(ValueError, match="this is not JSON"):
        parse(text)


def test_json_that_is_no_object_and_files_that_can_not_be_read(tmp_path):
    with pytest.raises(ValueError, match="not a list"):
        parse("[1]")
    with pytest.raises(ValueError, match="a config is a JSON object of keys and values, not a str"):
        parse(json.dumps(str(tmp_path)))  # else it would be read as a path
    with pytest.raises(ValueError, match=r"config\.json can't be read"):
        read(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="binary can't be read"):
        read(tmp_path / "binary")


def paths(values, path=()):
    """Every key of a config, nested ones too, as a path."""
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from paths(value, (*path, key))


@pytest.mark.parametrize("wrong", [[], {}, "x", -1, 1.5, True, 10**30, [[1]], [None]], ids=repr)
def test_any_value_anywhere_is_read_or_refused_with_a_value_error(wrong):
    for values, *_ in HUB.values():
        for path in paths(values):
            spoilt = inner = json.loads(json.dumps(values))
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong
            with contextlib.suppress(ValueError):
                read(spoilt)


def test_whole_numbers_of_json_may_be_written_with_a_point():
    assert read({**LLAMA, "num_hidden_layers": 32.0}) == read(LLAMA)


def test_the_config_is_not_changed():
    for values, *_ in HUB.values():
        before = json.dumps(values)
        read(values)
        assert json.dumps(values) == before


# ---- wrong twins ------------------------------------------------------------------------------------------------------


def names(key, *found):
    return lambda patch: patch.setitem(config.NAMES, key, found)


def rule(name):
    return lambda patch: patch.setattr(config, "RULES", tuple(r for r in config.RULES if r.__name__ != name))


def default(family):
    return lambda patch: patch.setitem(config.DEFAULTS, family, {})


def function(name, wrong):
    return lambda patch: patch.setattr(config, name, wrong)


TWINS = {
    "hidden over heads before head_dim": (names("head_dim"), "Qwen3 0.6B: head_dim is not hidden / heads"),
    "absent KV heads are one": (function("_kv_heads", lambda c, kind, i: c.at("num_key_value_heads", i) or 1), "GPT-2"),
    "num_kv_heads before the flags": (function("_multi_query", lambda c: None), "Falcon 7B: num_kv_heads is stale"),
    "the window whatever the flag": (
        lambda patch: patch.setattr(config.Fields, "flag", lambda self, key: None), "Qwen2.5 7B: a stale window"),
    "no default for the flag": (default("qwen2"), "Qwen2, flag absent"),
    "no class defaults": (default("gemma3_text"), "Gemma 3 4B: heads and their size are the class's"),
    "every layer alike": (rule("_by_layer_types"), "Step 3.5: extra layer types are those of prediction layers"),
    "no pattern by windows": (rule("_by_windows"), "Mistral 7B v0.1"),
    "no chunks": (rule("_by_chunks"), "Llama 4 Scout"),
    "no letters": (rule("_by_letters"), "Nemotron 3 Nano"),
    "no numbers": (rule("_by_numbers"), "MiMo-V2-Flash: keys wider than values"),
    "no blocks": (rule("_by_blocks"), "Nemotron-NAS"),
    "no indices": (rule("_by_indices"), "LFM2"),
    "no period": (rule("_by_period"), "Jamba"),
    "no state": (rule("_by_state"), "Falcon-H1: attention and Mamba in every layer"),
    "no block types": (rule("_by_block_types"), "RecurrentGemma"),
    "no attention types": (rule("_by_attention_types"), "GPT-Neo"),
    "layers that share are counted": (function("_shared", lambda c, layers: layers), "Gemma 4 E4B"),
    "values as wide as keys": (function("_value_size", lambda c, kind, i: None), "MiMo-V2-Flash: keys wider than values"),
    "global heads like local ones": (names("global_num_key_value_heads", "none"), "Gemma 4 26B: wide global heads"),
    "an indexer in every layer": (function("_indexes", lambda c, i: True), "GLM 5.2: an indexer in every fourth layer"),
    "states in float32 where the config is silent": (
        function("_state_dtype", lambda c, own: F32), "Jamba"),
    "states in the model's dtype whatever the config says": (
        function("_state_dtype", lambda c, own: own), "Qwen3.5 397B"),
    "a convolution keeps its whole kernel": (
        function("_conv", lambda c, own: Layers("recurrent", 1, state=(Part("conv", 2048, 1, own, c.need("conv_L_cache", "")),))),
        "LFM2"),
    "the outer config only": (function("_merged", lambda values: values), "Qwen2.5-Omni: two levels down"),
    "Mamba-1 has the width of the MLP": (
        function("_channels", lambda c: c.need("intermediate_size", "")), "Jamba"),
    "expand before intermediate_size": (
        function("_channels", lambda c: c.need("mamba_expand", "") * c.need("hidden_size", "")),
        "Falcon Mamba: its expand is stale"),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_a_wrong_twin_of_each_rule_is_caught(twin, monkeypatch):
    patch, caught_by = TWINS[twin]
    values, *expected = HUB[caught_by]
    patch(monkeypatch)
    try:
        found = list(sizes(values))
    except ValueError:
        return
    assert found != expected
