# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training of a small model of `transformers` with random weights, which knows nothing of msprobe.

python train.py llama --dtype bfloat16 --fault llama_gate
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

VOCABULARY = 128


def spread(width: int) -> float:
    """Of the weights. With 0.02 the attention of a small model hardly looks at anything; with 0.1 that of a
    wide one looks at one place, and rounding decides at which.
    """
    return 0.1 * (64 / width) ** 0.5


def transformer(width: int, layers: int, attention: str) -> dict[str, Any]:
    """What the configurations of most models call alike."""
    return {
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "initializer_range": spread(width),
        "attn_implementation": attention,
    }


def decoder(width: int, layers: int, attention: str) -> dict[str, Any]:
    """Of one with grouped queries."""
    more = {"vocab_size": VOCABULARY, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return {**transformer(width, layers, attention), **more}


def llama(width: int, layers: int, attention: str) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**decoder(width, layers, attention)))


def mixtral(width: int, layers: int, attention: str) -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            **decoder(width, layers, attention),
            num_local_experts=4,
            num_experts_per_tok=2,
            output_router_logits=True,
            router_aux_loss_coef=0.1,
            experts_implementation="eager",
        )
    )


def bert(width: int, layers: int, attention: str) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            **transformer(width, layers, attention),
            vocab_size=VOCABULARY,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def resnet(width: int, layers: int, attention: str) -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(
        ResNetConfig(
            embedding_size=width // 4,
            hidden_sizes=[width // 4, width // 2],
            depths=[layers - 1, layers - 1],
            layer_type="basic",
            num_labels=8,
        )
    )


def vit(width: int, layers: int, attention: str) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            **transformer(width, layers, attention),
            image_size=16,
            patch_size=4,
            num_labels=8,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def gpt2(width: int, layers: int, attention: str) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=64,
            n_embd=width,
            n_layer=layers,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            initializer_range=spread(width),
            attn_implementation=attention,
        )
    )


def t5(width: int, layers: int, attention: str) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=width,
            d_kv=width // 4,
            d_ff=2 * width,
            num_layers=layers,
            num_heads=4,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=16,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            attn_implementation=attention,
        )
    )


def gemma2(width: int, layers: int, attention: str) -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            **decoder(width, layers, attention),
            head_dim=width // 4,
            query_pre_attn_scalar=width // 4,
            sliding_window=8,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=10.0,
        )
    )


def mamba(width: int, layers: int, attention: str) -> Any:
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(
        MambaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            state_size=8,
            num_hidden_layers=layers,
            initializer_range=spread(width),
        )
    )


MODELS = {
    "llama": llama,
    "mixtral": mixtral,
    "bert": bert,
    "resnet": resnet,
    "vit": vit,
    "gpt2": gpt2,
    "t5": t5,
    "gemma2": gemma2,
    "mamba": mamba,
}


def batch(name: str, step: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + step)
    if name in ("resnet", "vit"):
        images = torch.randn(
            4, 3, 32 if name == "resnet" else 16, 32 if name == "resnet" else 16, generator=generator
        )
        return {"pixel_values": images.to(dtype), "labels": torch.randint(8, (4,), generator=generator)}
    ids = torch.randint(3, VOCABULARY, (4, 24), generator=generator)
    found = {"input_ids": ids, "labels": ids.clone()}
    if name == "bert":
        kept = torch.arange(24)[None] < torch.tensor([24, 20, 13, 17])[:, None]
        found.update(attention_mask=kept.long(), labels=ids.masked_fill(~kept, -100))
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("model", choices=MODELS)
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--width", type=int, default=64)
    add("--layers", type=int, default=3)
    add("--steps", type=int, default=3)
    add("--fault", help="name of one of sources.py")
    add("--noise", type=int, default=0, help="seed of another device's rounding")
    add("--attention", choices=("eager", "sdpa"), default="eager")
    add("--optimizer", choices=("for", "foreach", "fused"), default="for")
    add("--threads", type=int, default=1)
    add("--micro-batches", type=int, default=1)
    add("--checkpointing", action="store_true")
    add("--compile", action="store_true")
    add("--channels-last", action="store_true")
    add("--no-mkldnn", action="store_true")
    add("--refactored", action="store_true", help="the same training, written otherwise")
    return parser.parse_args()


def build(args: argparse.Namespace) -> Any:
    torch.manual_seed(7)
    model = MODELS[args.model](args.width, args.layers, args.attention).to(getattr(torch, args.dtype)).train()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    if args.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def optimizer_of(args: argparse.Namespace, model: Any) -> torch.optim.Optimizer:
    how = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for": {"foreach": False}}[args.optimizer]
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **how)


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    model = build(args)
    plant = None
    if args.fault:
        from sources import BY_NAME

        # a method: fields of an object, as of a configuration, would be settings of the training
        plant = BY_NAME[args.fault].plant
    optimizer = optimizer_of(args, model)
    called = torch.compile(model) if args.compile else model
    with contextlib.ExitStack() as stack:
        if args.no_mkldnn:
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        if args.noise:
            from unseen_noise import UnseenNoise

            stack.enter_context(UnseenNoise(args.noise))
        for step in range(args.steps):
            if plant is not None:
                plant(model, step)
            train = refactored_step if args.refactored else one_step
            print(f"step {step} loss {train(args, called, model, optimizer, step):.6f}")


def one_step(args: argparse.Namespace, called: Any, model: Any, optimizer: Any, step: int) -> float:
    data = batch(args.model, step, getattr(torch, args.dtype))
    if args.channels_last:
        data["pixel_values"] = data["pixel_values"].contiguous(memory_format=torch.channels_last)
    optimizer.zero_grad()
    total = 0.0
    parts = {name: value.chunk(args.micro_batches) for name, value in data.items()}
    for index in range(args.micro_batches):
        loss = called(**{name: value[index] for name, value in parts.items()}).loss / args.micro_batches
        loss.backward()
        total += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def refactored_step(args: argparse.Namespace, called: Any, model: Any, optimizer: Any, step: int) -> float:
    """Another order of the script, another way to zero, to call and to clip."""
    for parameter in model.parameters():
        parameter.grad = None
    data = batch(args.model, step, getattr(torch, args.dtype))
    labels = data.pop("labels")
    output = called(labels=labels, **data)
    torch.autograd.backward(output["loss"])
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
    optimizer.step()
    return float(output["loss"].detach())


if __name__ == "__main__":
    main()
