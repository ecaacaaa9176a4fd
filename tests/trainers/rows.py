# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: a trainer, its script, another right kernel, and planted faults with what names
them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    options: str
    """Of the script."""
    names: str
    """Regular expression: in the answer's cause, with its value or its place."""


@dataclass(frozen=True)
class Row:
    name: str
    script: str
    """With its options."""
    packages: tuple[str, ...]
    """The trainer first: its distribution names."""
    faults: tuple[Fault, ...]
    kernel: str = "--kernel"
    """Options for another right kernel; empty: there is none that the trainer offers."""
    processes: int = 1
    beside: str = ""
    """A package that only this row may see."""
    by_environment: bool = False
    """Recorded by MSPROBE_CONFIG: other processes train than the one that is started."""


def _value(name: str, value: str, reference: str) -> Fault:
    """A setting: the answer has its name or both values."""
    return Fault(f"--set {name}={value}", rf"{name}\b.*{_number(value)}.*{_number(reference)}")


def _number(text: str) -> str:
    return rf"\b{text.strip(chr(34))}\b".replace(".", r"\.")


def _eps(path: str) -> Fault:
    return Fault(f"--plant eps:{path}", rf"{path.replace('.', chr(92) + '.')}.*0\.05|0\.05.*{path}")


def _weight(path: str) -> Fault:
    return Fault(f"--plant weight:{path}", path.replace(".", r"\."))


def _gradient(path: str) -> Fault:
    module = path.rpartition(".")[0]
    return Fault(f"--plant gradient:{path}", f"{path}|{module}".replace(".", r"\."))


def _result(path: str) -> Fault:
    return Fault(f"--plant result:{path}", rf"{path}|row\.py".replace(".", r"\."))


ROWS = (
    Row(
        "TRL: SFT",
        "trl_sft.py",
        ("trl", "transformers"),
        (
            _value("learning_rate", "0.002", "0.001"),
            _value("max_grad_norm", "0.5", "1.0"),
            _value("per_device_train_batch_size", "5", "4"),
            _eps("model.layers.1.input_layernorm"),
            _weight("model.layers.0.mlp.up_proj.weight"),
            _result("model.layers.1.self_attn.o_proj"),
        ),
    ),
    Row(
        "TRL: SFT with LoRA",
        "trl_sft.py --lora",
        ("trl", "peft"),
        (
            _value("lora_alpha", "16", "8"),
            Fault("--set lora_dropout=0.1", r"q_proj\.lora_dropout"),  # its place: a module of another class
            _eps("model.layers.1.post_attention_layernorm"),
        ),
    ),
    Row(
        "TRL: SFT with packing",
        "trl_sft.py --packing",
        ("trl",),
        (
            _value("max_length", "28", "32"),
            _value("learning_rate", "0.002", "0.001"),
            _eps("model.layers.0.input_layernorm"),
            _gradient("model.layers.1.mlp.down_proj.weight"),
        ),
    ),
    Row(
        "TRL: DPO",
        "trl_dpo.py",
        ("trl",),
        (
            _value("beta", "0.2", "0.1"),
            _value("label_smoothing", "0.1", "0.0"),
            Fault(
                "--plant reference:model.layers.1.input_layernorm",
                r"model\.layers\.1\.input_layernorm|0\.05",
            ),
        ),
    ),
    Row(
        "TRL: GRPO",
        "trl_grpo.py",
        ("trl",),
        (
            _value("temperature", "0.7", "1.0"),
            _value("beta", "0.1", "0.04"),
            Fault("--set reward_weight=2.0", r"reward|advantage"),
            _eps("model.layers.0.input_layernorm"),
        ),
        kernel="",
    ),
    *(
        Row(
            f"DeepSpeed: ZeRO {stage}",
            f"deepspeed_zero.py --stage={stage}",
            ("deepspeed",),
            (
                _value("gradient_clipping", "0.2", "1.0"),
                _value("lr", "0.002", "0.001"),
                _eps("layers.1.norm1"),
                _weight("layers.0.up.weight") if stage < 3 else _result("layers.0.out"),
            ),
            processes=2,
        )
        for stage in (1, 2, 3)
    ),
    Row(
        "Megatron-core",
        "megatron_gpt.py",
        ("megatron-core",),
        (
            _value("lr", "0.002", "0.001"),
            Fault("--set layernorm_epsilon=0.01", r"eps(ilon)?\b.*0\.01.*1e-05"),
            _result("decoder.layers.1.mlp.linear_fc2"),
            _weight("decoder.layers.0.mlp.linear_fc1.weight"),
        ),
        kernel="",
        processes=2,
    ),
    Row(
        "litgpt",
        "litgpt_pretrain.py",
        ("litgpt", "lightning"),
        (
            _value("max_norm", "0.2", "1.0"),
            _value("lr", "0.002", "0.001"),
            Fault("--set norm_eps=0.01", r"eps\b.*0\.01.*1e-05"),
            _weight("transformer.h.0.mlp.fc.weight"),
            Fault("--set data_seed=6", r"data|input|idx"),
        ),
    ),
    Row(
        "torchtune",
        "torchtune_recipe.py",
        ("torchtune",),
        (
            _value("clip_grad_norm", "0.2", "1.0"),
            _value("batch_size", "5", "4"),
            _value("norm_eps", "0.01", "1e-05"),
            _result("layers.1.attn.output_proj"),
        ),
        beside="torchao",
    ),
    Row(
        "accelerate: DDP",
        "accelerate_ddp.py",
        ("accelerate",),
        (
            _value("max_norm", "0.2", "1.0"),
            _value("gradient_accumulation_steps", "2", "1"),
            _value("label_smoothing", "0.1", "0.0"),
            _gradient("layers.1.down.weight"),
        ),
        processes=2,
    ),
    Row(
        "accelerate: FSDP2",
        "accelerate_ddp.py --fsdp2",
        ("accelerate",),
        (
            _value("lr", "0.002", "0.001"),
            _value("max_norm", "0.2", "1.0"),
            _eps("layers.1.norm2"),
            _result("layers.0.out"),
        ),
        processes=2,
    ),
    Row(
        "diffusers",
        "diffusers_unet.py",
        ("diffusers",),
        (
            _value("beta_end", "0.03", "0.02"),
            _value("prediction_type", "v_prediction", "epsilon"),
            _value("num_warmup_steps", "4", "2"),
            _value("decay", "0.8", "0.95"),
            _result("down_blocks.1.resnets.0"),
        ),
    ),
    Row(
        "sentence-transformers",
        "sentence_pairs.py",
        ("sentence-transformers", "transformers"),
        (
            _value("scale", "10.0", "20.0"),
            _value("warmup_steps", "3", "0"),
            Fault("--set pooling=max", r"[Pp]ool"),
            _eps("0.model.encoder.layer.1.output.LayerNorm"),
        ),
    ),
    Row(
        "timm",
        "timm_vit.py",
        ("timm",),
        (
            # What is computed with is 1 - smoothing.
            Fault("--set smoothing=0.2", r"LabelSmoothingCrossEntropy\.confidence = 0\.8.*0\.9"),
            _value("decay", "0.8", "0.9"),
            Fault("--set drop_path_rate=0.1", r"drop_path"),  # its place: a module of another class
            _eps("blocks.1.norm2"),
        ),
        beside="torchvision",
    ),
    Row(
        "PyG",
        "pyg_gcn.py",
        ("torch-geometric",),
        (
            _value("lr", "0.02", "0.01"),
            _value("dropout", "0.3", "0.1"),
            _value("batch_size", "5", "4"),
            _weight("second.lin.weight"),
        ),
    ),
    Row(
        "Lightning: Fabric",
        "fabric.py",
        ("lightning",),
        (
            _value("label_smoothing", "0.1", "0.0"),
            _value("max_norm", "0.2", "1.0"),
            _value("weight_decay", "0.2", "0.01"),
            _result("layers.1.down"),
        ),
    ),
    Row(
        "Lightning: Trainer",
        "lightning_trainer.py",
        ("lightning",),
        (
            _value("lr", "0.002", "0.001"),
            _value("gradient_clip_val", "0.2", "1.0"),
            _value("batch_size", "5", "8"),
            _gradient("layers.0.qkv.weight"),
            _eps("layers.1.norm2"),
        ),
    ),
    Row(
        "Ignite",
        "ignite_engine.py",
        ("pytorch-ignite",),
        (
            Fault("--set peak_lr=0.004", r"(peak|lr)\b.*0\.004.*0\.002"),
            _value("label_smoothing", "0.1", "0.0"),
            _eps("layers.0.norm1"),
            _gradient("layers.1.up.weight"),
        ),
    ),
    Row(
        "Ray Train",
        "ray_train.py",
        ("ray",),
        (
            _value("lr", "0.002", "0.001"),
            _value("label_smoothing", "0.1", "0.0"),
            _eps("layers.1.norm1"),
            _weight("layers.0.down.weight"),
        ),
        by_environment=True,
    ),
    Row(
        "stable-baselines3: PPO",
        "sb3_ppo.py",
        ("stable-baselines3",),
        (
            _value("gamma", "0.9", "0.99"),
            _value("ent_coef", "0.01", "0.0"),
            _value("vf_coef", "0.25", "0.5"),
            Fault("--set reward_scale=2.0", r"reward|advantage|return|target"),
            _weight("mlp_extractor.policy_net.0.weight"),
        ),
    ),
)
