# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of checkpoints, alone and against each other: files of torch.save of all ages, distributed
checkpoints, safetensors, names of Hugging Face.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_support import (
    Model,
    columns,
    gated,
    rows,
    save,
    settings,
    tensor,
    write_rank,
    write_safetensors,
)
from msprobe import Error, FormatError, InvalidArgument, UnsupportedError
from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
from msprobe.checkpoint.tables import load_mapping, load_rules, shipped_mappings
from msprobe.native import core

HIDDEN, FFN, VOCABULARY, HEADS, GROUPS = 16, 24, 32, 4, 2
SIZE = HIDDEN // HEADS

STATE: Model = {
    "layers.0.weight": tensor("w", 6, 5),
    "layers.0.bias": tensor("b", 5).bfloat16(),
    "layers.1.weight": tensor("v", 4, 3, 2).half(),
    "scale": torch.tensor(3.5),
    "empty": torch.zeros(0, 4),
    "count": torch.arange(7),
}


def same(left: Path, right: Path, **options: Any) -> bool:
    return compare_checkpoints(left, right, CheckpointOptions(**options)).same


# ---- files of torch.save


@pytest.mark.parametrize("wrap", [None, "model", "state_dict", "module"])
@pytest.mark.parametrize("legacy", [False, True])
def test_single_files(tmp_path: Path, wrap: str | None, legacy: bool) -> None:
    plain = save(tmp_path / "plain.pt", STATE)
    content = STATE if wrap is None else {wrap: STATE, "optimizer": {"state": {}}, "epoch": 3}
    other = save(tmp_path / "other.bin", content, _use_new_zipfile_serialization=not legacy)
    result = compare_checkpoints(plain, other, CheckpointOptions(hash=True))
    assert result.same
    assert [row.name for row in result.rows] == list(STATE)


def test_prefixes_of_wrappers_are_left_out(tmp_path: Path) -> None:
    left = save(tmp_path / "a.pt", STATE)
    right = save(tmp_path / "b.pt", {f"module.{name}": value for name, value in STATE.items()})
    result = compare_checkpoints(left, right)
    assert result.same
    assert result.notes == ['names of the target checkpoint are taken without "module."']


def test_whole_module(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    left = save(tmp_path / "state.pt", module.state_dict())
    right = save(tmp_path / "module.pt", module)
    assert same(left, right)


def test_views_share_memory(tmp_path: Path) -> None:
    base = tensor("base", 8, 6)
    content = {"t": base.t(), "part": base[2:5, 1::2], "row": base[3], "tied": base}
    left = save(tmp_path / "views.pt", content)
    right = save(
        tmp_path / "copies.pt", {name: value.clone().contiguous() for name, value in content.items()}
    )
    result = compare_checkpoints(left, right, CheckpointOptions(hash=True))
    assert result.same
    assert all(row.hashes[0] == row.hashes[1] for row in result.rows)
    for name in content:  # and they are what torch has
        assert next(row for row in result.rows if row.name == name).norms[0] == pytest.approx(
            content[name].double().norm().item()
        )


@pytest.mark.parametrize(
    "name",
    [
        "archive_name",
        "containers",
        "dtypes",
        "legacy",
        "new_dtypes",
        "param_state",
        "params",
        "proto4",
        "trap",
        "views",
    ],
)
def test_samples_of_files(samples: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tensors of the manifest are there, with the content that it says."""
    monkeypatch.chdir(tmp_path)
    manifest = json.loads((samples / "pt_files/manifest.json").read_text())[f"{name}.pt"]
    checkpoint = core.open_checkpoint(samples / f"pt_files/{name}.pt", load_rules())
    found = {one: (dtype, shape) for one, dtype, shape in checkpoint.parameters}
    left_out = dict(checkpoint.left_out)
    for one, expected in manifest.get("tensors", {}).items():
        if one in left_out:
            continue
        assert found[one] == (expected["dtype"], expected["shape"]), one
    assert not list(tmp_path.iterdir())  # nothing was run


@pytest.mark.parametrize("name", ["not_a_pt", "truncated"])
def test_broken_samples(samples: Path, name: str) -> None:
    with pytest.raises(FormatError, match=rf"{name}\.pt"):
        compare_checkpoints(samples / f"pt_files/{name}.pt", samples / "pt_files/params.pt")


@pytest.mark.parametrize("cut", [0, 1, 20, 100, 300, 500])
def test_legacy_file_cut_short(tmp_path: Path, cut: int) -> None:
    path = save(tmp_path / "old.pt", STATE, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * cut // 600])
    with pytest.raises(FormatError, match=r"old\.pt"):
        compare_checkpoints(path, path)


# ---- safetensors and files with an index


def test_safetensors(tmp_path: Path) -> None:
    named = {name: value for name, value in STATE.items() if value.dtype != torch.half}
    write_safetensors(tmp_path / "model.safetensors", named, {"format": "pt"})
    file = save(tmp_path / "model.pt", named)
    assert same(tmp_path / "model.safetensors", file)


def test_index_of_several_files(tmp_path: Path) -> None:
    names = list(STATE)
    first, second = ({name: STATE[name] for name in some} for some in (names[:2], names[2:]))
    for folder, write, ending in (
        (tmp_path / "safe", lambda path, part: write_safetensors(path, part), "safetensors"),
        (tmp_path / "bin", lambda path, part: save(path, part), "bin"),
    ):
        folder.mkdir()
        weights = {}
        for number, part in enumerate((first, second), 1):
            file = f"model-0000{number}-of-00002.{ending}"
            write(folder / file, part)
            weights.update(dict.fromkeys(part, file))
        (folder / f"model.{ending}.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": weights})
        )
    assert same(tmp_path / "safe", tmp_path / "bin")
    (tmp_path / "safe/model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FormatError, match=r"model-00002-of-00002\.safetensors.*the file is missing"):
        same(tmp_path / "safe", tmp_path / "bin")


@pytest.mark.parametrize("target", ["../secret.safetensors", "/etc/passwd", "sub/../../secret.safetensors"])
def test_index_that_leads_out_of_the_folder(tmp_path: Path, target: str) -> None:
    write_safetensors(tmp_path / "secret.safetensors", {"x": torch.ones(1)})
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": target}}))
    with pytest.raises(FormatError, match="expected the name of a file in the folder"):
        same(folder, folder)


def test_symbolic_links(tmp_path: Path) -> None:
    """Out of the folder: refused; into the store of a cache of models: followed."""
    write_safetensors(tmp_path / "secret.safetensors", {"x": torch.ones(1)})
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to("../secret.safetensors")
    with pytest.raises(FormatError, match="symbolic link that leads out"):
        same(folder, folder)
    snapshot = tmp_path / "models--a--b/snapshots/0123"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--a--b/blobs").mkdir()
    (tmp_path / "secret.safetensors").rename(tmp_path / "models--a--b/blobs/abc")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    assert same(snapshot, snapshot)


# ---- distributed checkpoints


def save_distributed(folder: Path, content: dict[str, Any]) -> Path:
    import torch.distributed.checkpoint as dcp

    dcp.save(content, checkpoint_id=folder, no_dist=True)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrap", [(), ("model",), ("app", "model")])
def test_distributed(tmp_path: Path, wrap: tuple[str, ...]) -> None:
    content: dict[str, Any] = dict(STATE)
    if wrap:
        content = {wrap[-1]: content, "optimizer": {"state": {"scale": {"exp_avg": torch.tensor(1.0)}}}}
    if len(wrap) == 2:
        content = {wrap[0]: content}
    folder = save_distributed(tmp_path / "dcp", content)
    file = save(tmp_path / "file.pt", STATE)
    result = compare_checkpoints(folder, file, CheckpointOptions(hash=True))
    assert result.same
    assert result.reference.kind == "distributed"
    assert len(result.rows) == len(STATE)


@pytest.mark.filterwarnings("ignore")
def test_distributed_with_missing_files(tmp_path: Path) -> None:
    folder = save_distributed(tmp_path / "dcp", STATE)
    (file,) = folder.glob("*.distcp")
    content = file.read_bytes()
    file.write_bytes(content[:-900])
    with pytest.raises(FormatError, match="distcp"):
        same(folder, folder)
    file.unlink()
    with pytest.raises(FormatError, match="the file is missing"):
        same(folder, folder)
    file.write_bytes(content)
    (folder / ".metadata").unlink()
    with pytest.raises(FormatError, match=r"\.metadata.*is missing"):
        same(folder, folder)


# ---- names of Hugging Face against those of Megatron


def megatron_model(*, bias: bool = False, mixture: bool = False) -> Model:
    whole = {"embedding.word_embeddings.weight": tensor("words", VOCABULARY, HIDDEN)}
    for i in range(2):
        name = f"decoder.layers.{i}."
        outputs = (HEADS + 2 * GROUPS) * SIZE
        whole[name + "input_layernorm.weight"] = tensor(name + "1", HIDDEN)
        whole[name + "self_attention.linear_qkv.weight"] = tensor(name + "q", outputs, HIDDEN)
        if bias:
            whole[name + "self_attention.linear_qkv.bias"] = tensor(name + "qb", outputs)
        whole[name + "self_attention.linear_proj.weight"] = tensor(name + "p", HIDDEN, HIDDEN)
        whole[name + "pre_mlp_layernorm.weight"] = tensor(name + "2", HIDDEN)
        places = [f"mlp.experts.local_experts.{e}." for e in range(3)] if mixture else ["mlp."]
        if mixture:
            whole[name + "mlp.router.weight"] = tensor(name + "r", 3, HIDDEN)
        for place in places:
            whole[name + place + "linear_fc1.weight"] = tensor(name + place + "f1", 2 * FFN, HIDDEN)
            whole[name + place + "linear_fc2.weight"] = tensor(name + place + "f2", HIDDEN, FFN)
    whole["decoder.final_layernorm.weight"] = tensor("final", HIDDEN)
    whole["output_layer.weight"] = tensor("out", VOCABULARY, HIDDEN)
    return whole


def hugging_face(whole: Model, *, mixture: bool = False) -> Model:
    """By the definition of Megatron's order: for each group its queries, its key, its value."""
    found = {
        "model.embed_tokens.weight": whole["embedding.word_embeddings.weight"],
        "model.norm.weight": whole["decoder.final_layernorm.weight"],
        "lm_head.weight": whole["output_layer.weight"],
    }
    per_group = HEADS // GROUPS
    for i in range(2):
        ours, theirs = f"decoder.layers.{i}.", f"model.layers.{i}."
        for kind in ("weight", "bias"):
            packed = whole.get(f"{ours}self_attention.linear_qkv.{kind}")
            if packed is None:
                continue
            groups = packed.reshape(GROUPS, per_group + 2, SIZE, *packed.shape[1:])
            for what, some in (("q", groups[:, :per_group]), ("k", groups[:, -2:-1]), ("v", groups[:, -1:])):
                value = some.reshape(-1, *packed.shape[1:]).clone()
                found[f"{theirs}self_attn.{what}_proj.{kind}"] = value
        found[theirs + "self_attn.o_proj.weight"] = whole[ours + "self_attention.linear_proj.weight"]
        found[theirs + "input_layernorm.weight"] = whole[ours + "input_layernorm.weight"]
        found[theirs + "post_attention_layernorm.weight"] = whole[ours + "pre_mlp_layernorm.weight"]
        if mixture:
            found[theirs + "block_sparse_moe.gate.weight"] = whole[ours + "mlp.router.weight"]
            for e in range(3):
                expert = f"{ours}mlp.experts.local_experts.{e}."
                gate, up = whole[expert + "linear_fc1.weight"].chunk(2, 0)
                there = f"{theirs}block_sparse_moe.experts.{e}."
                found[there + "w1.weight"], found[there + "w3.weight"] = gate.clone(), up.clone()
                found[there + "w2.weight"] = whole[expert + "linear_fc2.weight"]
        else:
            gate, up = whole[ours + "mlp.linear_fc1.weight"].chunk(2, 0)
            found[theirs + "mlp.gate_proj.weight"], found[theirs + "mlp.up_proj.weight"] = (
                gate.clone(),
                up.clone(),
            )
            found[theirs + "mlp.down_proj.weight"] = whole[ours + "mlp.linear_fc2.weight"]
    return found


def write_hugging_face(folder: Path, tensors: Model, model_type: str) -> Path:
    folder.mkdir(parents=True)
    write_safetensors(folder / "model.safetensors", tensors)
    config = {
        "model_type": model_type,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "hidden_size": HIDDEN,
        "time_step_limit": [0.0, float("inf")],  # as models of state spaces have it; not JSON, to the letter
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_megatron(folder: Path, whole: Model) -> Path:
    """Tensor-parallel 2, pipeline-parallel 2."""
    for stage in range(2):
        layer = f"decoder.layers.{stage}."
        for rank in range(2):
            part = {}
            for name, value in whole.items():
                if name.startswith("decoder.layers.") and not name.startswith(layer):
                    continue
                if (name.startswith("embedding") and stage) or (
                    name.startswith(("decoder.final", "out")) and not stage
                ):
                    continue
                if "fc1" in name:
                    value = gated(value, 2)[rank]
                elif any(word in name for word in ("qkv", "word_embeddings", "output_layer")):
                    value = rows(value, 2)[rank]
                elif "proj.weight" in name or "fc2" in name:
                    value = columns(value, 2)[rank]
                part[name.replace(layer, "decoder.layers.0.")] = value
            args = settings(
                tensor_model_parallel_size=2,
                pipeline_model_parallel_size=2,
                swiglu=True,
                num_query_groups=GROUPS,
                group_query_attention=True,
            )
            write_rank(folder, f"mp_rank_{rank:02d}_{stage:03d}", part, args)
    return folder


@pytest.mark.parametrize(
    ("model_type", "bias", "mixture"),
    [("llama", False, False), ("qwen2", True, False), ("mixtral", False, True)],
)
def test_megatron_against_hugging_face(tmp_path: Path, model_type: str, bias: bool, mixture: bool) -> None:
    whole = megatron_model(bias=bias, mixture=mixture)
    left = write_megatron(tmp_path / "megatron", whole)
    right = write_hugging_face(tmp_path / "hf", hugging_face(whole, mixture=mixture), model_type)
    result = compare_checkpoints(left, right, CheckpointOptions(hash=True))
    assert result.same, (result.reference_only, result.target_only, result.differing)
    assert len(result.rows) == len(whole)
    assert "mapping" in result.notes[0]
    assert compare_checkpoints(right, left).same  # the other way round


def test_one_element_of_a_key(tmp_path: Path) -> None:
    whole = megatron_model()
    left = write_megatron(tmp_path / "megatron", whole)
    changed = hugging_face(whole)
    changed["model.layers.1.self_attn.k_proj.weight"][5, 3] += 2
    right = write_hugging_face(tmp_path / "hf", changed, "llama")
    (row,) = compare_checkpoints(left, right).differing
    assert row.name == "decoder.layers.1.self_attention.linear_qkv.weight"
    assert (row.l2, row.count - (row.equal_bits or 0)) == (pytest.approx(2, rel=1e-5), 1)


def test_gpt2(tmp_path: Path) -> None:
    whole: Model = {
        "embedding.word_embeddings.weight": tensor("wte", VOCABULARY, HIDDEN),
        "embedding.position_embeddings.weight": tensor("wpe", 8, HIDDEN),
        "decoder.layers.0.self_attention.linear_qkv.weight": tensor("qkv", 3 * HIDDEN, HIDDEN),
        "decoder.layers.0.self_attention.linear_qkv.bias": tensor("qkvb", 3 * HIDDEN),
        "decoder.layers.0.mlp.linear_fc1.weight": tensor("fc", 4 * HIDDEN, HIDDEN),
        "decoder.final_layernorm.weight": tensor("f", HIDDEN),
    }
    heads = whole["decoder.layers.0.self_attention.linear_qkv.weight"].reshape(HEADS, 3, SIZE, HIDDEN)
    biases = whole["decoder.layers.0.self_attention.linear_qkv.bias"].reshape(HEADS, 3, SIZE)
    theirs = {
        "transformer.wte.weight": whole["embedding.word_embeddings.weight"],
        "transformer.wpe.weight": whole["embedding.position_embeddings.weight"],
        "transformer.h.0.attn.c_attn.weight": heads.transpose(0, 1)
        .reshape(3 * HIDDEN, HIDDEN)
        .t()
        .contiguous(),
        "transformer.h.0.attn.c_attn.bias": biases.transpose(0, 1).reshape(-1).clone(),
        "transformer.h.0.mlp.c_fc.weight": whole["decoder.layers.0.mlp.linear_fc1.weight"].t().contiguous(),
        "transformer.ln_f.weight": whole["decoder.final_layernorm.weight"],
    }
    left = write_rank(tmp_path / "megatron", "mp_rank_00", whole, settings()).parents[1]
    right = write_hugging_face(tmp_path / "hf", theirs, "gpt2")
    result = compare_checkpoints(left, right, CheckpointOptions(hash=True))
    assert result.same, result


def test_mapping_of_ones_own(tmp_path: Path) -> None:
    left = save(tmp_path / "a.pt", {"x.0.w": tensor("a", 4, 6), "y": tensor("b", 3)})
    parts = {"p.0.left": tensor("a", 4, 6)[:, :2].clone(), "p.0.right": tensor("a", 4, 6)[:, 2:].clone()}
    right = save(tmp_path / "b.pt", {**parts, "y": tensor("b", 3)})
    mapping = tmp_path / "map.yaml"
    mapping.write_text(
        'parameters:\n  - {to: "x.{i}.w", from: ["p.{i}.left", "p.{i}.right"], join: columns}\n'
    )
    assert not same(left, right)
    assert same(left, right, mapping=str(mapping))
    mapping.write_text(
        'parameters:\n  - {to: "x.{i}.w", from: ["p.{i}.left", "p.{j}.right"], join: columns}\n'
    )
    with pytest.raises(InvalidArgument, match="that its rule does not know"):
        same(left, right, mapping=str(mapping))
    mapping.write_text('parameters:\n  - {to: "x.{i}.w", from: ["p.{i}.left", "p.{i}.up"], join: columns}\n')
    with pytest.raises(InvalidArgument, match=r"needs p\.0\.up, which the checkpoint does not have"):
        same(left, right, mapping=str(mapping))


def test_shipped_tables_are_well_formed() -> None:
    assert set(shipped_mappings()) >= {"llama", "mixtral", "gpt2", "qwen_moe"}
    for name in shipped_mappings():
        assert load_mapping(name).rules
    load_rules()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("merges: [{how: sideways, patterns: []}]", "expected one of columns, gated"),
        ("merges: [{how: rows}]", "patterns: expected a list of texts"),
        ("renamings: [{from: a}]", "to: expected text"),
        ("rules: []", "unknown key 'rules'"),
    ],
)
def test_rules_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        load_rules(str(path))


# ---- values


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    left = {
        "nan": torch.tensor([1, nan, 3]),
        "inf": torch.tensor([1.0, inf]),
        "both": torch.tensor([inf, 1]),
        "zeros": torch.zeros(3),
        "one_zero": torch.zeros(3),
        "shapes": torch.zeros(2, 3),
    }
    right = {
        "nan": torch.tensor([1.0, 2, 3]),
        "inf": torch.tensor([1.0, 2]),
        "both": torch.tensor([inf, 2]),
        "zeros": torch.zeros(3),
        "one_zero": torch.ones(3),
        "shapes": torch.zeros(3, 2),
    }
    result = compare_checkpoints(save(tmp_path / "a.pt", left), save(tmp_path / "b.pt", right))
    found = {row.name: row for row in result.rows}
    assert str(found["nan"].l2) == "nan"
    assert str(found["nan"].cos) == "nan"
    assert found["nan"].nan_counts == (1, 0)
    assert found["inf"].l2 == inf
    assert str(found["both"].l2) == "nan"
    assert (found["zeros"].l2, found["zeros"].cos) == (0, 1)
    assert (found["one_zero"].cos, found["one_zero"].equal) == (None, False)
    assert (found["shapes"].l2, found["shapes"].cos, found["shapes"].reshaped) == (None, None, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32])
def test_metrics_against_torch(tmp_path: Path, dtype: torch.dtype) -> None:
    left = (tensor("a", 300, 700) * 50).to(dtype)
    right = (left.double() + tensor("d", 300, 700) * 3).to(dtype)
    a, b = left.double(), right.double()
    first = save(tmp_path / "a.pt", {"x": left})
    second = save(tmp_path / "b.pt", {"x": right.t().contiguous().t()})  # another order in memory
    (row,) = compare_checkpoints(first, second, CheckpointOptions(hash=True)).rows
    assert row.l2 == pytest.approx((a - b).norm().item(), rel=1e-12)
    assert row.cos == pytest.approx((a.flatten() @ b.flatten() / a.norm() / b.norm()).item(), rel=1e-12)
    assert row.max_absolute == (a - b).abs().max().item()
    assert row.means == (pytest.approx(a.mean().item()), pytest.approx(b.mean().item()))
    assert row.equal_bits == (left == right).sum().item()
    (same_row,) = compare_checkpoints(
        second, save(tmp_path / "c.pt", {"x": right}), CheckpointOptions(hash=True)
    ).rows
    assert same_row.equal
    assert same_row.hashes[0] == same_row.hashes[1] == row.hashes[1] != row.hashes[0]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_results_do_not_depend_on_threads(tmp_path: Path, threads: int) -> None:
    content = {f"x{i}": tensor(f"x{i}", 800, 1000 + i) for i in range(5)}
    other = {name: value + 1e-3 * tensor("noise" + name, *value.shape) for name, value in content.items()}
    left, right = save(tmp_path / "a.pt", content), save(tmp_path / "b.pt", other)
    one = compare_checkpoints(left, right, CheckpointOptions(threads=1, hash=True)).rows
    assert compare_checkpoints(left, right, CheckpointOptions(threads=threads, hash=True)).rows == one


def reference_hash(data: bytes) -> str:
    """The definition in docs/formats/checkpoint.md, word by word."""
    mask = (1 << 64) - 1

    def splitmix(seed: int, i: int) -> int:
        z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    data += bytes(-len(data) % 4)
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    halves = []
    for keys, scales in (
        (1415926535897932384, 4142135623730950488),
        (7182818284590452353, 7320508075688772935),
    ):
        halves.append(
            sum(
                word * (splitmix(keys, i % 1024) | 1) * (splitmix(scales, i // 1024) | 1)
                for i, word in enumerate(words)
            )
            & mask
        )
    return f"{halves[1]:016x}{halves[0]:016x}"


@pytest.mark.parametrize("count", [1, 3, 1023, 1024, 5000])
def test_the_hash_is_what_its_definition_says(tmp_path: Path, count: int) -> None:
    value = tensor("h", count).bfloat16()
    path = save(tmp_path / "a.pt", {"x": value})
    (found,) = core.open_checkpoint(path, load_rules()).hashes()
    assert found == reference_hash(value.view(torch.uint8).numpy().tobytes())
    assert len({found, hashlib.md5(b"").hexdigest()}) == 2


def test_errors_are_of_this_package(tmp_path: Path) -> None:
    with pytest.raises(Error, match="cannot find the checkpoint"):
        compare_checkpoints(tmp_path / "nothing", tmp_path)
    with pytest.raises(FormatError, match="found no checkpoint"):
        compare_checkpoints(tmp_path, tmp_path)
    (tmp_path / "old.pt").write_bytes(bytes(257) + b"ustar" + bytes(300))
    with pytest.raises(UnsupportedError, match="tar archive"):
        compare_checkpoints(tmp_path / "old.pt", tmp_path)
