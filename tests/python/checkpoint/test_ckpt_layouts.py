# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts that mindstudio-probe gets wrong (docs/compatibility.md): one model, written in two of them, is
equal, and a change of one element is found in its place.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_support import Model, columns, gated, rows, settings, tensor, write_rank
from msprobe import FormatError
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
from msprobe.checkpoint.result import CheckpointResult

HIDDEN, FFN, VOCABULARY = 16, 24, 32
LAYER = "decoder.layers.{}."


def compare(left: Path, right: Path) -> CheckpointResult:
    result = compare_checkpoints(left, right, CheckpointOptions(hash=True))
    for row in result.rows:
        if row.rows is None and not row.reshaped:
            assert (row.hashes[0] == row.hashes[1]) == row.equal, row.name
    return result


def layer(index: int, *, is_gated: bool = False) -> Model:
    name = LAYER.format(index)
    outputs = 2 * FFN if is_gated else FFN
    return {
        name + "input_layernorm.weight": tensor(name + "ln1", HIDDEN),
        name + "self_attention.linear_qkv.weight": tensor(name + "qkv", 3 * HIDDEN, HIDDEN),
        name + "self_attention.linear_qkv.bias": tensor(name + "qkvb", 3 * HIDDEN),
        name + "self_attention.linear_proj.weight": tensor(name + "proj", HIDDEN, HIDDEN),
        name + "pre_mlp_layernorm.weight": tensor(name + "ln2", HIDDEN),
        name + "mlp.linear_fc1.weight": tensor(name + "fc1", outputs, HIDDEN),
        name + "mlp.linear_fc1.bias": tensor(name + "fc1b", outputs),
        name + "mlp.linear_fc2.weight": tensor(name + "fc2", HIDDEN, FFN),
    }


def model(layers: int = 2, *, is_gated: bool = False) -> Model:
    whole = {"embedding.word_embeddings.weight": tensor("words", VOCABULARY, HIDDEN)}
    for index in range(layers):
        whole.update(layer(index, is_gated=is_gated))
    whole["decoder.final_layernorm.weight"] = tensor("final", HIDDEN)
    whole["output_layer.weight"] = tensor("output", VOCABULARY, HIDDEN)
    return whole


def split(whole: Model, count: int, *, is_gated: bool = False) -> list[Model]:
    """As tensor-parallel ranks hold it."""

    def shards(name: str, value: torch.Tensor) -> list[torch.Tensor]:
        if "linear_fc1" in name and is_gated:
            return gated(value, count)
        if any(word in name for word in ("linear_qkv", "linear_fc1", "word_embeddings", "output_layer")):
            return rows(value, count)
        if "linear_proj.weight" in name or "linear_fc2.weight" in name:
            return columns(value, count)
        return [value.clone() for _ in range(count)]

    parts = {name: shards(name, value) for name, value in whole.items()}
    return [{name: some[rank] for name, some in parts.items()} for rank in range(count)]


def write(folder: Path, whole: Model, tensor_parallel: int = 1, *, is_gated: bool = False) -> Path:
    args = settings(tensor_model_parallel_size=tensor_parallel, swiglu=is_gated)
    for rank, part in enumerate(split(whole, tensor_parallel, is_gated=is_gated)):
        write_rank(folder, f"mp_rank_{rank:02d}", part, args)
    return folder


def renumbered(part: Model, first: int) -> Model:
    """Layers as a pipeline stage counts them."""

    def local(name: str) -> str:
        head, word, rest = name.partition("layers.")
        if not word:
            return name
        number, _, tail = rest.partition(".")
        return f"{head}layers.{int(number) - first}.{tail}"

    return {local(name): value for name, value in part.items()}


def layers_between(whole: Model, first: int, last: int) -> Model:
    wanted = tuple(LAYER.format(index) for index in range(first, last))
    return renumbered({name: value for name, value in whole.items() if name.startswith(wanted)}, first)


# ---- the rows of the table of wrong results


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("is_gated", [False, True])
def test_tensor_parallel(tmp_path: Path, count: int, is_gated: bool) -> None:
    whole = model(is_gated=is_gated)
    left = write(tmp_path / "one", whole, is_gated=is_gated)
    right = write(tmp_path / "more", whole, count, is_gated=is_gated)
    assert compare(left, right).same


def test_gated_without_a_setting_is_told_by_the_shapes(tmp_path: Path) -> None:
    whole = model(is_gated=True)
    left = write(tmp_path / "one", whole, is_gated=True)
    for rank, part in enumerate(split(whole, 2, is_gated=True)):
        args = settings(tensor_model_parallel_size=2)
        write_rank(tmp_path / "two", f"mp_rank_{rank:02d}", part, args)
    assert compare(left, tmp_path / "two").same


def test_one_element_in_the_second_shard_of_a_gate(tmp_path: Path) -> None:
    whole = model(is_gated=True)
    left = write(tmp_path / "one", whole, is_gated=True)
    name = LAYER.format(1) + "mlp.linear_fc1.weight"
    whole[name] = whole[name].clone()
    whole[name][FFN + 20, 3] += 0.5
    result = compare(left, write(tmp_path / "two", whole, 2, is_gated=True))
    (row,) = result.differing
    assert row.name == name
    assert row.l2 == pytest.approx(0.5, rel=1e-5)
    assert row.count - (row.equal_bits or 0) == 1


def test_fused_layer_norm_of_the_mlp(tmp_path: Path) -> None:
    whole = model()
    left = write(tmp_path / "one", whole)
    fused = {
        name.replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_").replace(
            "input_layernorm.", "self_attention.linear_qkv.layer_norm_"
        ): value
        for name, value in whole.items()
    }
    for rank, part in enumerate(split(whole, 2)):
        shard = {
            new: (value if "layer_norm" in new else part[old])
            for (old, value), new in zip(whole.items(), fused)
        }
        shard[LAYER.format(0) + "mlp.linear_fc1._extra_state"] = torch.zeros(4, dtype=torch.uint8)
        write_rank(tmp_path / "two", f"mp_rank_{rank:02d}", shard, settings(tensor_model_parallel_size=2))
    result = compare(left, tmp_path / "two")
    assert result.same
    assert len(result.rows) == len(whole)


EXPERTS = 4


def experts(form: str, which: range) -> Model:
    """Of layer 0; `form`: how the ranks hold the experts of `which`."""
    name = LAYER.format(0) + "mlp."
    first = {e: tensor(f"e{e}fc1", 2 * FFN, HIDDEN) for e in range(EXPERTS)}
    second = {e: tensor(f"e{e}fc2", HIDDEN, FFN) for e in range(EXPERTS)}
    found = {name + "router.weight": tensor("router", EXPERTS, HIDDEN)}
    for local, e in enumerate(which):
        if form == "single":
            found[f"{name}experts.local_experts.{local}.linear_fc1.weight"] = first[e]
            found[f"{name}experts.local_experts.{local}.linear_fc2.weight"] = second[e]
        elif form == "numbered":
            found[f"{name}experts.linear_fc1.weight{local}"] = first[e]
            found[f"{name}experts.linear_fc2.weight{local}"] = second[e]
    if form == "grouped":  # [input, expert x output] in shape, [expert][input][output] in memory
        weights = torch.stack([first[e].t() for e in which])
        found[f"{name}experts.weight1"] = weights.reshape(HIDDEN, -1).clone()
        found[f"{name}experts.weight2"] = torch.cat([second[e].t() for e in which]).clone()
    return found


def write_experts(folder: Path, form: str, parallel: int) -> Path:
    each = EXPERTS // parallel
    for rank in range(parallel):
        name = f"mp_rank_00_{rank:03d}" if parallel > 1 else "mp_rank_00"
        args = settings(expert_model_parallel_size=parallel, num_experts=EXPERTS, swiglu=True)
        part = {**model(1), **experts(form, range(rank * each, (rank + 1) * each))}
        write_rank(folder, name, part, args)
    return folder


@pytest.mark.parametrize("form", ["single", "numbered", "grouped"])
@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_experts(tmp_path: Path, form: str, parallel: int) -> None:
    left = write_experts(tmp_path / "one", "single", 1)
    result = compare(left, write_experts(tmp_path / "other", form, parallel))
    assert result.same
    assert sum("local_experts" in row.name for row in result.rows) == 2 * EXPERTS


def test_copies_of_expert_parallel_ranks_that_differ(tmp_path: Path) -> None:
    """Only the first one is compared, so the others are looked at, as far as they are no experts."""
    folder = write_experts(tmp_path / "two", "single", 2)
    assert not compare(folder, folder).reference.warnings
    path = next(folder.rglob("mp_rank_00_001/model_optim_rng.pt"))
    content = torch.load(path, weights_only=False)
    name = next(name for name in content["model"] if "experts" not in name and "layers.0" in name)
    content["model"][name].view(-1)[0] += 1
    torch.save(content, path)
    (warning,) = compare(folder, folder).reference.warnings
    assert warning.startswith(f"{name}: the copies in mp_rank_00_000 and mp_rank_00_001 differ")


@pytest.mark.parametrize("form", ["single", "numbered", "grouped"])
def test_experts_with_tensor_parallel_shards(tmp_path: Path, form: str) -> None:
    """Tensor-parallel 2 and expert-parallel 2, with experts in one or two shards."""
    left = write_experts(tmp_path / "one", "single", 1)
    for shards in (1, 2):
        folder = tmp_path / f"two_{shards}"
        for tensor_rank in range(2):
            for expert_rank in range(2):
                if shards == 1 and tensor_rank != expert_rank:
                    continue  # ranks are (0, 0) and (1, 1) then
                part = split(model(1), 2)[tensor_rank]
                for name, value in experts("single", range(2 * expert_rank, 2 * expert_rank + 2)).items():
                    part[name] = value
                if shards == 2:
                    for name in [one for one in part if "local_experts" in one]:
                        pieces = (gated if "fc1" in name else columns)(part[name], 2)
                        part[name] = pieces[tensor_rank]
                part = regrouped(part, form)
                args = settings(
                    tensor_model_parallel_size=2,
                    expert_model_parallel_size=2,
                    expert_tensor_parallel_size=shards,
                    num_experts=EXPERTS,
                    swiglu=True,
                )
                write_rank(folder, f"mp_rank_{tensor_rank:02d}_{expert_rank:03d}", part, args)
        assert compare(left, folder).same, shards


def regrouped(part: Model, form: str) -> Model:
    """Experts that stand for themselves as another form has them."""
    start = LAYER.format(0) + "mlp.experts.local_experts."
    single = {name: part.pop(name) for name in list(part) if name.startswith(start)}
    if form == "single":
        return {**part, **single}
    base = start.replace("local_experts.", "")
    weights = {
        which: [value for name, value in single.items() if f"linear_fc{which}" in name] for which in (1, 2)
    }
    if form == "numbered":
        for which, values in weights.items():
            part.update({f"{base}linear_fc{which}.weight{e}": value for e, value in enumerate(values)})
    else:
        stacked = torch.stack([value.t() for value in weights[1]])
        part[base + "weight1"] = stacked.reshape(HIDDEN, -1).clone()
        part[base + "weight2"] = torch.cat([value.t() for value in weights[2]]).clone()
    return part


def test_padded_vocabulary(tmp_path: Path) -> None:
    whole = model(1)
    left = write(tmp_path / "one", whole)
    padded = dict(whole)
    for name in ("embedding.word_embeddings.weight", "output_layer.weight"):
        padded[name] = torch.cat([whole[name], torch.full((8, HIDDEN), 9.0)])
    result = compare(left, write(tmp_path / "two", padded, 2))
    row = next(row for row in result.rows if row.name == "embedding.word_embeddings.weight")
    assert (row.rows, row.l2, row.shapes[1]) == (VOCABULARY, 0.0, [VOCABULARY + 8, HIDDEN])
    assert result.same


def test_tied_output_layer_of_the_last_stage(tmp_path: Path) -> None:
    whole = model()
    del whole["output_layer.weight"]
    left = write(tmp_path / "one", whole)
    two = tmp_path / "two"
    args = settings(pipeline_model_parallel_size=2)
    words = "embedding.word_embeddings.weight"
    write_rank(two, "mp_rank_00_000", {words: whole[words], **layers_between(whole, 0, 1)}, args)
    last = {
        **layers_between(whole, 1, 2),
        "decoder.final_layernorm.weight": whole["decoder.final_layernorm.weight"],
    }
    write_rank(two, "mp_rank_00_001", {**last, "output_layer.weight": whole[words].clone()}, args)
    result = compare(left, two)
    assert result.same
    assert "tied" in result.notes[0]
    write_rank(two, "mp_rank_00_001", {**last, "output_layer.weight": whole[words] + 1}, args)
    assert compare(left, two).target_only == ["output_layer.weight"]


@pytest.mark.parametrize("counts", [(2, 1, 3), (1, 3, 1, 1), (3, 3)])
def test_pipeline_stages_of_unequal_length(tmp_path: Path, counts: tuple[int, ...]) -> None:
    whole = model(sum(counts))
    left = write(tmp_path / "one", whole)
    args = settings(pipeline_model_parallel_size=len(counts))
    first = 0
    for stage, count in enumerate(counts):
        part = layers_between(whole, first, first + count)
        if stage == 0:
            part["embedding.word_embeddings.weight"] = whole["embedding.word_embeddings.weight"]
        if stage == len(counts) - 1:
            part["decoder.final_layernorm.weight"] = whole["decoder.final_layernorm.weight"]
            part["output_layer.weight"] = whole["output_layer.weight"]
        write_rank(tmp_path / "more", f"mp_rank_00_{stage:03d}", part, args)
        first += count
    result = compare(left, tmp_path / "more")
    assert result.same
    assert len(result.rows) == len(whole)


def test_interleaved_stages(tmp_path: Path) -> None:
    """Part 0 of both stages comes before part 1 of both."""
    whole = model(6)
    left = write(tmp_path / "one", whole)
    order = [[(0, 2), (3, 4)], [(2, 3), (4, 6)]]  # by stage and part; the parts are of unequal length
    for stage, parts in enumerate(order):
        chunks = [layers_between(whole, *part) for part in parts]
        if stage == 0:
            chunks[0]["embedding.word_embeddings.weight"] = whole["embedding.word_embeddings.weight"]
        else:
            chunks[1]["decoder.final_layernorm.weight"] = whole["decoder.final_layernorm.weight"]
            chunks[1]["output_layer.weight"] = whole["output_layer.weight"]
        args = settings(pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2)
        write_rank(tmp_path / "two", f"mp_rank_00_{stage:03d}", chunks, args)
    result = compare(left, tmp_path / "two")
    assert result.same
    assert result.target.parallel_sizes == (1, 2, 1, 2)


def test_multi_token_prediction_keeps_its_layers(tmp_path: Path) -> None:
    whole = model(2)
    mtp = "mtp.layers.0.transformer_layer.mlp.linear_fc1.weight"
    whole[mtp] = tensor("mtp", FFN, HIDDEN)
    left = write(tmp_path / "one", whole)
    args = settings(pipeline_model_parallel_size=2)
    words = {"embedding.word_embeddings.weight": whole["embedding.word_embeddings.weight"]}
    write_rank(tmp_path / "two", "mp_rank_00_000", {**words, **layers_between(whole, 0, 1)}, args)
    last = {name: whole[name] for name in ("decoder.final_layernorm.weight", "output_layer.weight", mtp)}
    write_rank(tmp_path / "two", "mp_rank_00_001", {**layers_between(whole, 1, 2), **last}, args)
    assert compare(left, tmp_path / "two").same


def test_encoder_and_decoder_do_not_collide(tmp_path: Path) -> None:
    whole = model(1)
    both = {**whole, **{name.replace("decoder", "encoder"): value + 1 for name, value in layer(0).items()}}
    left = write(tmp_path / "one", both)
    changed = dict(both)
    name = "encoder.layers.0.mlp.linear_fc2.weight"
    changed[name] = both[name] + 0.25
    result = compare(left, write(tmp_path / "two", changed, 2))
    assert [row.name for row in result.differing] == [name]
    assert len(result.rows) == len(both)


def test_latent_attention(tmp_path: Path) -> None:
    name = LAYER.format(0) + "self_attention."
    whole = {
        **model(1),
        name + "linear_q_down_proj.weight": tensor("qd", 8, HIDDEN),
        name + "linear_q_up_proj.weight": tensor("qu", 48, 8),
        name + "linear_kv_down_proj.weight": tensor("kvd", 12, HIDDEN),
        name + "linear_kv_up_proj.weight": tensor("kvu", 64, 8),
    }
    left = write(tmp_path / "one", whole)
    fused = name + "linear_q_up_proj.layer_norm_weight"
    for rank, part in enumerate(split(whole, 2)):
        for up in ("linear_q_up_proj.weight", "linear_kv_up_proj.weight"):
            part[name + up] = rows(whole[name + up], 2)[rank]
        part[fused] = tensor("norm", 8)
        write_rank(tmp_path / "two", f"mp_rank_{rank:02d}", part, settings(tensor_model_parallel_size=2))
    result = compare(left, tmp_path / "two")
    assert result.target_only == [name + "q_layernorm.weight"]
    assert not result.differing
    assert not result.target.warnings


def test_state_space_mixer(tmp_path: Path) -> None:
    """Its input projection has sections z, x, B, C, dt; each rank has a part of each."""
    name, inner, groups, heads = LAYER.format(0) + "mixer.", 8, 4, 4
    sizes = {
        "in_proj.weight": [inner, inner, groups, groups, heads],
        "conv1d.weight": [inner, groups, groups],
        "conv1d.bias": [inner, groups, groups],
    }
    shapes: dict[str, tuple[int, ...]] = {
        "in_proj.weight": (HIDDEN,),
        "conv1d.weight": (1, 4),
        "conv1d.bias": (),
    }
    whole = {name + what: tensor(what, sum(some), *shapes[what]) for what, some in sizes.items()}
    whole |= {name + what: tensor(what, heads) for what in ("A_log", "D", "dt_bias")}
    whole |= {name + "norm.weight": tensor("n", inner), name + "out_proj.weight": tensor("o", HIDDEN, inner)}
    left = write_rank(tmp_path / "one", "mp_rank_00", whole, settings()).parents[1]
    for rank in range(2):
        part = {key: rows(value, 2)[rank] for key, value in whole.items()}
        for what, some in sizes.items():
            sections = [section.chunk(2, 0)[rank] for section in whole[name + what].split(some)]
            part[name + what] = torch.cat(sections)
        part[name + "out_proj.weight"] = columns(whole[name + "out_proj.weight"], 2)[rank]
        write_rank(tmp_path / "two", f"mp_rank_{rank:02d}", part, settings(tensor_model_parallel_size=2))
    result = compare(left, tmp_path / "two")
    assert result.same
    assert not result.target.warnings


@pytest.mark.parametrize("version", [0, 1.0])
@pytest.mark.parametrize("count", [1, 2])
def test_old_order_of_query_key_and_value(tmp_path: Path, version: float, count: int) -> None:
    whole = model(1)
    left = write(tmp_path / "one", whole)
    heads, size = 4, HIDDEN // 4
    for rank, part in enumerate(split(whole, count)):
        for name in [one for one in part if "linear_qkv" in one]:
            now = part[name].reshape(heads // count, 3, size, -1)
            old = now.permute(1, 0, 2, 3) if version == 0 else now.permute(0, 2, 1, 3)
            part[name] = old.reshape(part[name].shape).clone()
        args = settings(tensor_model_parallel_size=count)
        write_rank(tmp_path / "old", f"mp_rank_{rank:02d}", part, args, checkpoint_version=version)
    assert compare(left, tmp_path / "old").same


# ---- what else a tree may be


def test_copies_that_differ_are_told(tmp_path: Path) -> None:
    whole = model(1)
    left = write(tmp_path / "one", whole)
    right = write(tmp_path / "two", whole, 2)
    part = split(whole, 2)[1]
    part["decoder.final_layernorm.weight"] += 1
    write_rank(right, "mp_rank_01", part, settings(tensor_model_parallel_size=2))
    result = compare(left, right)
    assert result.same  # rank 0 counts
    (warning,) = result.target.warnings
    assert "decoder.final_layernorm.weight" in warning
    assert "ranks 0 and 1 differ" in warning


@pytest.mark.parametrize("settings_known", [True, False])
def test_missing_ranks_are_named(tmp_path: Path, settings_known: bool) -> None:
    whole = model(4)
    args = settings(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)
    for rank in ("mp_rank_00_000", "mp_rank_01_001"):
        known = args if settings_known else argparse.Namespace()
        write_rank(tmp_path / "two", rank, layers_between(whole, 0, 2), known)
    with pytest.raises(FormatError, match="ranks are missing: mp_rank_00_001, mp_rank_01_000"):
        compare_checkpoints(tmp_path / "two", tmp_path / "two")


def test_iteration_folders(tmp_path: Path) -> None:
    write(tmp_path / "run/iter_0000010", model(1))
    write(tmp_path / "run/release", model(1))
    tracker = tmp_path / "run/latest_checkpointed_iteration.txt"
    tracker.write_text("10\n")
    assert compare(tmp_path / "run", tmp_path / "run/release").reference.iteration == 10
    tracker.write_text("release")
    assert compare(tmp_path / "run", tmp_path / "run/iter_0000010").same


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("11", 'no folder "iter_0000011"'),
        ("../../etc", "expected the number of an iteration"),
        ("", "expected the number of an iteration"),
        ("9" * 100, "found 100 bytes"),
    ],
)
def test_iteration_that_points_nowhere(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "iter_0000010", model(1))
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(text)
    with pytest.raises(FormatError, match=message):
        compare_checkpoints(tmp_path, tmp_path)


def test_a_single_rank(tmp_path: Path) -> None:
    tree = write(tmp_path / "two", model(1), 2)
    rank = tree / "mp_rank_01"
    result = compare(rank, rank / "model_optim_rng.pt")
    assert result.same
    assert result.rows[0].shapes[0] == [VOCABULARY // 2, HIDDEN]


def test_names_of_older_transformers(tmp_path: Path) -> None:
    whole = model(1)
    left = write(tmp_path / "one", whole)
    change: list[tuple[str, str]] = [
        ("decoder.final_layernorm", "transformer.final_layernorm"),
        ("decoder.layers", "transformer.layers"),
        ("self_attention", "attention"),
        ("linear_qkv", "query_key_value"),
        ("linear_proj", "dense"),
        ("pre_mlp_layernorm", "post_attention_layernorm"),
        ("linear_fc1", "dense_h_to_4h"),
        ("linear_fc2", "dense_4h_to_h"),
    ]

    def old(name: str) -> str:
        for new, before in change:
            name = name.replace(new, before)
        return "language_model." + name

    for rank, part in enumerate(split(whole, 2)):
        args = settings(tensor_model_parallel_size=2)
        write_rank(tmp_path / "old", f"mp_rank_{rank:02d}", {old(n): v for n, v in part.items()}, args)
    assert compare(left, tmp_path / "old").same


@pytest.mark.parametrize("change", [lambda x: x.half(), lambda x: x.bfloat16(), lambda x: x.double()])
def test_dtypes_may_differ(tmp_path: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    whole = {name: value.bfloat16().half().float() for name, value in model(1).items()}
    left = write(tmp_path / "one", whole)
    right = write(tmp_path / "two", {name: change(value) for name, value in whole.items()}, 2)
    result = compare_checkpoints(left, right)
    assert [row.l2 for row in result.rows] == [0.0] * len(whole)
    assert result.same
