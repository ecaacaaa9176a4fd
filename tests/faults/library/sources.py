# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in the source of a library: the text of one function is changed, as an update of the library would
do it.

Nothing of it is an attribute of a module or a setting that a recording lists. "First" is where the changed
line takes effect: the call or the module that is written down with each fault.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIBRARY = "transformers.models.{0}.modeling_{0}"


@dataclass(frozen=True)
class Edit:
    """In `function` of the model's source file (`eager_attention_forward`, or `LlamaMLP.forward`), each `old`
    becomes `new`; `where`: in this one module only, else wherever the function is called.
    """

    function: str
    old: str
    new: str
    where: str = ""
    count: int = 1
    """How many of the places with `old` are changed, from the first one."""


@dataclass(frozen=True)
class SourceFault:
    name: str
    model: str
    dtype: str
    edit: Edit
    place: str
    """Regular expression; found in what the answer says of the first cause."""
    step: int = 0

    @property
    def is_rounding(self) -> bool:
        """What is rounded once more: beside another device's rounding nobody can tell it."""
        return self.name == "llama_softmax_low"


def plant(edit: Edit, model_name: str, model: Any) -> None:
    """Changes the function, in a model that is built already."""
    module = importlib.import_module(LIBRARY.format(model_name))
    owner_name, _, name = edit.function.rpartition(".")
    owner = getattr(module, owner_name) if owner_name else module
    changed = _changed(getattr(owner, name), edit)
    if edit.where:
        part = model.get_submodule(edit.where)
        assert type(part) is owner, f"{edit.where} is a {type(part).__name__}"
        part.__class__ = type(owner.__name__, (owner,), {"__module__": owner.__module__, name: changed})
        part.__class__.__qualname__ = owner.__qualname__
    else:
        setattr(owner, name, changed)


def _changed(function: Any, edit: Edit) -> Any:
    """The same function with other text, under the name of a file that shows it."""
    original = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(original))
    source = re.sub(r"\A(@[^\n]*\n)+", "", source)
    assert source.count(edit.old) >= edit.count, f"{edit.function} has no {edit.old!r}"
    source = source.replace(edit.old, edit.new, edit.count)
    file = f"<changed {edit.function}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), original.__globals__, space)
    return space[original.__name__]


def _of(model: str) -> Callable[..., SourceFault]:
    def fault(
        name: str, dtype: str, function: str, old: str, new: str, place: str, where: str = ""
    ) -> SourceFault:
        return SourceFault(f"{model}_{name}", model, dtype, Edit(function, old, new, where), place)

    return fault


_llama, _mixtral, _bert, _resnet, _vit = map(_of, ("llama", "mixtral", "bert", "resnet", "vit"))
_gpt2, _t5, _gemma2, _mamba = map(_of, ("gpt2", "t5", "gemma2", "mamba"))
F32, BF16 = "float32", "bfloat16"

FAULTS = (
    # ---- a decoder with grouped queries
    _llama(
        "scaling",
        F32,
        "eager_attention_forward",
        "* scaling",
        "* (scaling * 1.1)",
        r"(__mul__|Module).*layers\.0\.self_attn",
    ),
    _llama(
        "softmax_low",
        BF16,
        "eager_attention_forward",
        ", dtype=torch.float32",
        "",
        r"(softmax|Tensor\.to|Module).*layers\.0\.self_attn",
    ),
    _llama(
        "groups",
        F32,
        "eager_attention_forward",
        "repeat_kv(value, module.num_key_value_groups)",
        "value.repeat(1, module.num_key_value_groups, 1, 1)",
        r"(repeat|expand|reshape|unsqueeze|matmul|__getitem__|Module).*layers\.0\.self_attn",
    ),
    _llama(
        "rotary_sign",
        BF16,
        "apply_rotary_pos_emb",
        "(k * cos) + (rotate_half",
        "(k * cos) - (rotate_half",
        r"(__sub__|missing call|Module).*layers\.0\.self_attn",
    ),
    _llama(
        "norm_eps",
        BF16,
        "LlamaRMSNorm.forward",
        "variance + self.variance_epsilon",
        "variance + 0.3",
        r"layers\.1\.post_attention_layernorm",
        "model.layers.1.post_attention_layernorm",
    ),
    _llama(
        "norm_mean",
        BF16,
        "LlamaRMSNorm.forward",
        ".mean(-1, keepdim=True)",
        ".mean((-2, -1), keepdim=True)",
        r"layers\.1\.input_layernorm",
        "model.layers.1.input_layernorm",
    ),
    _llama(
        "residual",
        F32,
        "LlamaDecoderLayer.forward",
        "hidden_states = self.mlp(hidden_states)\n    hidden_states = residual + hidden_states",
        "hidden_states = self.mlp(hidden_states)\n    hidden_states = residual + 0.9 * hidden_states",
        r"layers\.1(?!\.[a-z])",
        "model.layers.1",
    ),
    _llama(
        "gate",
        BF16,
        "LlamaMLP.forward",
        "self.act_fn(self.gate_proj(x)) * self.up_proj(x)",
        "self.gate_proj(x) * self.act_fn(self.up_proj(x))",
        r"layers\.2\.mlp",
        "model.layers.2.mlp",
    ),
    _llama(
        "detached",
        F32,
        "LlamaDecoderLayer.forward",
        "residual + hidden_states",
        "residual + hidden_states.detach()",
        r"layers\.1(\.self_attn)?(?!\.[a-z])|detach",
        "model.layers.1",
    ),
    _llama(
        "frequencies",
        F32,
        "LlamaRotaryEmbedding.forward",
        "torch.cat((freqs, freqs)",
        "torch.cat((freqs, freqs * 0.5)",
        r"rotary_emb",
    ),
    # ---- a mixture of experts
    _mixtral(
        "not_normalised",
        F32,
        "MixtralTopKRouter.forward",
        "router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
        "pass",
        r"layers\.0\.mlp",
    ),
    _mixtral(
        "sigmoid",
        BF16,
        "MixtralTopKRouter.forward",
        "torch.nn.functional.softmax(router_logits.float(), dim=-1)",
        "torch.sigmoid(router_logits.float())",
        r"layers\.1\.mlp\.gate|sigmoid",
        "model.layers.1.mlp.gate",
    ),
    _mixtral(
        "smallest",
        F32,
        "MixtralTopKRouter.forward",
        "self.top_k, dim=-1)",
        "self.top_k, dim=-1, largest=False)",
        r"layers\.1\.mlp\.gate",
        "model.layers.1.mlp.gate",
    ),
    _mixtral(
        "unweighted",
        BF16,
        "MixtralExperts.forward",
        "current_hidden_states * top_k_weights[token_idx, top_k_pos, None]",
        "current_hidden_states",
        r"layers\.1\.mlp\.experts",
        "model.layers.1.mlp.experts",
    ),
    _mixtral(
        "gate_and_up",
        BF16,
        "MixtralExperts.forward",
        "gate, up =",
        "up, gate =",
        r"layers\.2\.mlp\.experts",
        "model.layers.2.mlp.experts",
    ),
    _mixtral(
        "last_expert",
        F32,
        "MixtralExperts.forward",
        "if expert_idx == self.num_experts:",
        "if expert_idx == self.num_experts - 1:",
        r"layers\.0\.mlp\.experts",
        "model.layers.0.mlp.experts",
    ),
    _mixtral(
        "balance",
        F32,
        "load_balancing_loss_func",
        "overall_loss * num_experts",
        "overall_loss * 1",
        r"argument Tensor\.__mul__",
    ),
    _mixtral(
        "overwritten",
        BF16,
        "MixtralExperts.forward",
        "final_hidden_states.index_add_(",
        "final_hidden_states.index_copy_(",
        r"layers\.0\.mlp\.experts",
        "model.layers.0.mlp.experts",
    ),
    # ---- an encoder with padding
    _bert(
        "padding_seen",
        F32,
        "eager_attention_forward",
        "attn_weights = attn_weights + attention_mask",
        "pass",
        r"(missing call|softmax|Module).*layer\.0\.attention",
    ),
    _bert(
        "mask_turned",
        BF16,
        "eager_attention_forward",
        "attn_weights + attention_mask",
        "attn_weights + attention_mask.transpose(-1, -2)",
        r"(transpose|argument|softmax|Module).*layer\.0\.attention",
    ),
    _bert(
        "positions",
        F32,
        "BertEmbeddings.forward",
        "self.position_embeddings(position_ids)",
        "self.position_embeddings(position_ids.flip(-1))",
        r"embeddings",
    ),
    _bert(
        "no_types",
        BF16,
        "BertEmbeddings.forward",
        "embeddings = inputs_embeds + token_type_embeddings",
        "embeddings = inputs_embeds",
        r"embeddings",
    ),
    _bert(
        "norm_first",
        BF16,
        "BertSelfOutput.forward",
        "self.LayerNorm(hidden_states + input_tensor)",
        "self.LayerNorm(hidden_states) + input_tensor",
        r"layer\.1\.attention\.output",
        "bert.encoder.layer.1.attention.output",
    ),
    _bert(
        "silu",
        BF16,
        "BertIntermediate.forward",
        "self.intermediate_act_fn(hidden_states)",
        "torch.nn.functional.silu(hidden_states)",
        r"layer\.1\.intermediate",
        "bert.encoder.layer.1.intermediate",
    ),
    _bert(
        "scaling",
        F32,
        "BertSelfAttention.forward",
        "scaling=self.scaling",
        "scaling=self.scaling**2",
        r"layer\.2\.attention",
        "bert.encoder.layer.2.attention.self",
    ),
    _bert(
        "softmax_dim",
        BF16,
        "eager_attention_forward",
        "softmax(attn_weights, dim=-1)",
        "softmax(attn_weights, dim=-2)",
        r"(softmax|Module).*layer\.0\.attention",
    ),
    # ---- a convnet
    _resnet(
        "order",
        F32,
        "ResNetConvLayer.forward",
        "= self.normalization(hidden_states)\n    hidden_states = self.activation(hidden_states)",
        "= self.activation(hidden_states)\n    hidden_states = self.normalization(hidden_states)",
        r"stages\.1\.layers\.0\.layer\.0",
        "resnet.encoder.stages.1.layers.0.layer.0",
    ),
    _resnet(
        "shortcut",
        F32,
        "ResNetBasicLayer.forward",
        "hidden_state += residual",
        "hidden_state += 0.8 * residual",
        r"stages\.0\.layers\.0(?!\.[a-z])",
        "resnet.encoder.stages.0.layers.0",
    ),
    _resnet(
        "clamped",
        BF16,
        "ResNetBasicLayer.forward",
        "residual = hidden_state\n",
        "residual = hidden_state.clamp(max=0.5)\n",
        r"stages\.1\.layers\.0(?!\.[a-z])|clamp",
        "resnet.encoder.stages.1.layers.0",
    ),
    _resnet(
        "leaky",
        BF16,
        "ResNetBasicLayer.forward",
        "self.activation(hidden_state)",
        "torch.nn.functional.leaky_relu(hidden_state, 0.2)",
        r"stages\.1\.layers\.0(?!\.layer\b)",
        "resnet.encoder.stages.1.layers.0",
    ),
    _resnet(
        "norm_eps",
        BF16,
        "ResNetConvLayer.forward",
        "self.normalization(hidden_states)",
        "nn.functional.batch_norm("
        "hidden_states, None, None, self.normalization.weight, self.normalization.bias, True, 0.1, 0.1)",
        r"stages\.0\.layers\.0\.layer\.1",
        "resnet.encoder.stages.0.layers.0.layer.1",
    ),
    _resnet(
        "detached",
        F32,
        "ResNetBasicLayer.forward",
        "hidden_state += residual",
        "hidden_state += residual.detach()",
        r"stages\.1\.layers\.0(?!\.layer\b)",
        "resnet.encoder.stages.1.layers.0",
    ),
    _resnet(
        "rolled",
        BF16,
        "ResNetConvLayer.forward",
        "self.convolution(hidden_states)",
        "self.convolution(hidden_states.roll(1, -1))",
        r"stages\.0\.layers\.0\.layer\.0",
        "resnet.encoder.stages.0.layers.0.layer.0",
    ),
    _resnet(
        "scaled",
        F32,
        "ResNetConvLayer.forward",
        "self.normalization(hidden_states)",
        "torch.mul(self.normalization(hidden_states), 1.02)",
        r"stages\.1\.layers\.0\.layer\.1",
        "resnet.encoder.stages.1.layers.0.layer.1",
    ),
    # ---- a vision transformer
    _vit(
        "scaling",
        BF16,
        "ViTAttention.forward",
        "scaling=self.scaling",
        "scaling=self.scaling * 1.5",
        r"layers\.1\.attention",
        "vit.layers.1.attention",
    ),
    _vit(
        "residual",
        F32,
        "ViTLayer.forward",
        "hidden_states = hidden_states + residual",
        "pass",
        r"layers\.1(?!\.[a-z])",
        "vit.layers.1",
    ),
    _vit(
        "norm",
        BF16,
        "ViTLayer.forward",
        "self.layernorm_after(",
        "self.layernorm_before(",
        r"layers\.2(?!\.(attention|mlp))",
        "vit.layers.2",
    ),
    _vit(
        "tanh",
        F32,
        "ViTMLP.forward",
        "self.activation_fn(hidden_states)",
        'nn.functional.gelu(hidden_states, approximate="tanh")',
        r"layers\.0\.mlp",
        "vit.layers.0.mlp",
    ),
    _vit(
        "heads",
        BF16,
        "ViTAttention.forward",
        "attn_output.reshape(",
        "attn_output.transpose(1, 2).reshape(",
        r"layers\.1\.attention",
        "vit.layers.1.attention",
    ),
    _vit(
        "positions",
        F32,
        "ViTEmbeddings.forward",
        "embeddings + self.position_embeddings",
        "embeddings + 0.5 * self.position_embeddings",
        r"embeddings",
    ),
    # ---- held out: written after the rules of the verdict, in models that these were never tried on
    _gpt2(
        "residual",
        F32,
        "GPT2Block.forward",
        "attn_output + residual",
        "attn_output + hidden_states",
        r"h\.1(?!\.[a-z])",
        "transformer.h.1",
    ),
    _gpt2(
        "keys_and_values",
        BF16,
        "GPT2Attention.forward",
        "query_states, key_states, value_states = self.c_attn",
        "query_states, value_states, key_states = self.c_attn",
        r"h\.1\.attn",
        "transformer.h.1.attn",
    ),
    _gpt2(
        "quick",
        F32,
        "GPT2MLP.forward",
        "self.act(hidden_states)",
        "hidden_states * torch.sigmoid(1.702 * hidden_states)",
        r"h\.2\.mlp",
        "transformer.h.2.mlp",
    ),
    _gpt2(
        "positions",
        F32,
        "GPT2Model.forward",
        "self.wpe(position_ids)",
        "self.wpe(position_ids + 1)",
        r"wpe|transformer(?!\.h)",
    ),
    _gpt2(
        "scaling",
        BF16,
        "eager_attention_forward",
        "* scaling",
        "* scaling * scaling",
        r"h\.0\.attn",
    ),
    _gpt2(
        "no_norm",
        BF16,
        "GPT2Block.forward",
        "self.ln_2(hidden_states)",
        "hidden_states",
        r"h\.1",
        "transformer.h.1",
    ),
    _t5(
        "distance",
        F32,
        "T5Attention.compute_bias",
        "memory_position - context_position",
        "context_position - memory_position",
        r"encoder\.block\.0",
    ),
    _t5(
        "bias",
        BF16,
        "eager_attention_forward",
        "attn_weights + position_bias",
        "attn_weights + 0.5 * position_bias",
        r"encoder\.block\.0\.layer\.0",
    ),
    _t5(
        "variance",
        F32,
        "T5LayerNorm.forward",
        ".pow(2).mean(-1, keepdim=True)",
        ".var(-1, keepdim=True, unbiased=False)",
        r"encoder\.block\.1\.layer\.0\.layer_norm",
        "encoder.block.1.layer.0.layer_norm",
    ),
    _t5(
        "memory",
        BF16,
        "T5LayerCrossAttention.forward",
        "key_value_states=key_value_states",
        "key_value_states=key_value_states * 1.1",
        r"decoder\.block\.1\.layer\.1",
        "decoder.block.1.layer.1",
    ),
    _t5(
        "residual",
        BF16,
        "T5LayerFF.forward",
        "hidden_states + self.dropout(forwarded_states)",
        "hidden_states + 0.9 * self.dropout(forwarded_states)",
        r"encoder\.block\.2\.layer\.1",
        "encoder.block.2.layer.1",
    ),
    _t5(
        "gelu",
        F32,
        "T5DenseActDense.forward",
        "self.act(hidden_states)",
        "nn.functional.gelu(hidden_states)",
        r"decoder\.block\.1\.layer\.2",
        "decoder.block.1.layer.2.DenseReluDense",
    ),
    _gemma2(
        "softcap",
        BF16,
        "eager_attention_forward",
        "attn_weights = torch.tanh(attn_weights)",
        "pass",
        r"layers\.0\.self_attn",
    ),
    _gemma2(
        "norm_sign",
        BF16,
        "Gemma2RMSNorm.forward",
        "(1.0 + self.weight.float())",
        "(1.0 - self.weight.float())",
        r"layers\.1\.post_attention_layernorm",
        "model.layers.1.post_attention_layernorm",
    ),
    _gemma2(
        "final_softcap",
        F32,
        "Gemma2ForCausalLM.forward",
        "logits = torch.tanh(logits)",
        "pass",
        r"tanh|__mul__|ForCausalLM",
    ),
    _gemma2(
        "norm_last",
        BF16,
        "Gemma2DecoderLayer.forward",
        "hidden_states = self.post_attention_layernorm(hidden_states)\n"
        "    hidden_states = residual + hidden_states",
        "hidden_states = self.post_attention_layernorm(residual + hidden_states)",
        r"layers\.1(?!\.(self_attn|mlp))",
        "model.layers.1",
    ),
    _gemma2(
        "keys_not_turned",
        F32,
        "apply_rotary_pos_emb",
        "k_embed = (k * cos) + (rotate_half(k) * sin)",
        "k_embed = k",
        r"layers\.0\.self_attn",
    ),
    _gemma2(
        "sum",
        F32,
        "Gemma2MLP.forward",
        "* self.up_proj(x)",
        "+ self.up_proj(x)",
        r"layers\.2\.mlp",
        "model.layers.2.mlp",
    ),
    _mamba(
        "exp",
        BF16,
        "mamba_selective_scan",
        "F.softplus(dt)",
        "torch.exp(dt)",
        r"layers\.0\.mixer",
    ),
    _mamba(
        "no_skip",
        F32,
        "mamba_selective_scan",
        "hidden_states * D[None, :, None]",
        "hidden_states",
        r"layers\.0\.mixer",
    ),
    _mamba(
        "gate",
        BF16,
        "mamba_selective_scan",
        "F.silu(z)",
        "torch.sigmoid(z)",
        r"layers\.0\.mixer",
    ),
    _mamba(
        "forgets",
        F32,
        "mamba_selective_scan",
        "discrete_A[:, :, index] * ssm_state",
        "0.95 * discrete_A[:, :, index] * ssm_state",
        r"layers\.0\.mixer",
    ),
    _mamba(
        "future",
        F32,
        "causal_conv1d_fn",
        "[:, :, :seq_len]",
        "[:, :, padding : padding + seq_len]",
        r"layers\.0\.mixer",
    ),
    _mamba(
        "norm_eps",
        BF16,
        "MambaRMSNorm.forward",
        "variance + self.variance_epsilon",
        "variance + 0.2",
        r"layers\.1\.norm",
        "backbone.layers.1.norm",
    ),
    _mamba(
        "detached",
        F32,
        "MambaBlock.forward",
        "residual + hidden_states",
        "residual.detach() + hidden_states",
        r"layers\.1(?!\.[a-z])|detach",
        "backbone.layers.1",
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
