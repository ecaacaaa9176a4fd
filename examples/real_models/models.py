# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Models of `transformers` with random weights: nothing is downloaded. One entry per kind of architecture.

Each has a fault to plant: a change of one module from step 1 on, as an update of a library makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY, LENGTH, BATCH = 512, 32, 4


@dataclass(frozen=True)
class Kind:
    """build(width, layers) makes the model, batch() what it is called with, labels included."""

    build: Callable[[int, int], Any]
    batch: Callable[[], dict[str, torch.Tensor]]
    culprit: str  # the module that `plant` changes
    plant: Callable[[Any], None]  # given that module


def tokens() -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def text() -> dict[str, torch.Tensor]:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}


def pictures() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32), "labels": torch.randint(10, (BATCH,))}


def sounds() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(BATCH, 16, 64), "labels": tokens()}


def llama(width: int, layers: int) -> Any:
    """A decoder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
        )
    )


def bert(width: int, layers: int) -> Any:
    """An encoder."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            max_position_embeddings=LENGTH,
        )
    )


def t5(width: int, layers: int) -> Any:
    """An encoder and a decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=width,
            d_kv=width // 4,
            d_ff=4 * width,
            num_layers=(layers + 1) // 2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )


def vit(width: int, layers: int) -> Any:
    """Pictures."""
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            image_size=32,
            patch_size=4,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_labels=10,
        )
    )


def mixtral(width: int, layers: int) -> Any:
    """A mixture of experts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=LENGTH,
            output_router_logits=True,
        )
    )


def whisper(width: int, layers: int) -> Any:
    """Sound to text."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            max_source_positions=32,
            max_target_positions=LENGTH,
            d_model=width,
            encoder_layers=(layers + 1) // 2,
            decoder_layers=(layers + 1) // 2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=4 * width,
            decoder_ffn_dim=4 * width,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    )


def larger_eps(module: Any) -> None:
    name = "eps" if hasattr(module, "eps") else "variance_epsilon"
    setattr(module, name, 0.1)


def other_activation(module: Any) -> None:
    """The approximation of GELU by tanh."""
    name = next(name for name in ("intermediate_act_fn", "activation_fn") if hasattr(module, name))
    setattr(module, name, torch.nn.GELU(approximate="tanh"))


def one_expert(module: Any) -> None:
    """The router gives each token to one expert instead of two."""
    module.top_k = 1


def doubled_scores(module: Any) -> None:
    module.scaling = module.scaling * 2


KINDS = {
    "llama": Kind(llama, text, "model.layers.1.post_attention_layernorm", larger_eps),
    "bert": Kind(bert, text, "bert.encoder.layer.1.intermediate", other_activation),
    "t5": Kind(t5, text, "decoder.block.0.layer.2.layer_norm", larger_eps),
    "vit": Kind(vit, pictures, "vit.layers.1.layernorm_after", larger_eps),
    "mixtral": Kind(mixtral, text, "model.layers.1.mlp.gate", one_expert),
    "whisper": Kind(whisper, sounds, "model.decoder.layers.0.encoder_attn", doubled_scores),
}
