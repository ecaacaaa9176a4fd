# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The pictures of a comparison."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msprobe import GradComparator
from msprobe.grad_probe import pictures
from msprobe.terminal.progress import Progress
from PIL import Image

DATA = Path(__file__).parents[2] / "data" / "grad_probe"

NAMES = [
    "blocks.0.0.bias", "blocks.0.0.weight", "blocks.0.2.bias", "blocks.0.2.weight", "blocks.1.0.bias",
    "blocks.1.0.weight", "blocks.1.2.bias", "blocks.1.2.weight", "emb.weight", "head.weight", "norm.bias",
    "norm.weight", "scale", "summary",
]  # fmt: skip


def draw(tmp_path, drawn, steps=(0, 1, 2)):
    painter = pictures.painter()
    assert painter is not None
    painter.draw(tmp_path, list(steps), drawn, Progress("", shown=False))


LINE_COLOUR = (31, 119, 180)


def colours(path, box=None):
    with Image.open(path) as image:
        assert image.size == (640, 480)
        assert image.format == "PNG"
        return {colour for _, colour in image.convert("RGB").crop(box or (0, 0, 640, 480)).getcolors(1 << 20)}


TITLE = (0, 32, 640, 56)


def test_the_pictures_of_the_existing_tool(tmp_path):
    paths = DATA / "l1_ranks_a", DATA / "l1_ranks_b", tmp_path
    GradComparator.compare_distributed(*paths, pictures="all")
    for rank in (0, 1):
        folder = tmp_path / f"rank{rank}" / "similarities_picture"
        assert sorted(path.name for path in folder.iterdir()) == [
            f"{name}_similarities.png" for name in NAMES
        ]
        for path in folder.iterdir():
            assert LINE_COLOUR in colours(path)
            assert (255, 255, 255) in colours(path)
            assert len(colours(path, TITLE)) > 3  # text, not only white


def test_of_several_ranks_the_worst_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("msprobe.grad_probe.comparator._MOST_PICTURES", 3)
    result = GradComparator.compare_distributed(DATA / "l1_ranks_a", DATA / "l1_ranks_b", tmp_path)
    first = result.verdict.first
    drawn = [path for path in tmp_path.rglob("*.png") if not path.name.startswith("summary")]
    assert len(drawn) == 3
    name = f"{first.parameter}_similarities.png"
    assert tmp_path / f"rank{first.rank}" / "similarities_picture" / name in drawn


def test_a_picture_without_any_value_has_no_line(tmp_path):
    draw(tmp_path, [pictures.picture_of("w", [None, None, None])])
    assert LINE_COLOUR not in colours(tmp_path / "w_similarities.png")


@pytest.mark.parametrize(
    ("steps", "values"),
    [([7], [0.5]), ([0, 1, 2], [None, 0.5, None]), ([0, 1_000_000], [0.0, 1.0])],
    ids=["one-step", "between-gaps", "far"],
)
def test_every_value_is_seen(tmp_path, steps, values):
    draw(tmp_path, [pictures.picture_of("w", values)], steps)
    assert LINE_COLOUR in colours(tmp_path / "w_similarities.png")


def test_the_same_data_give_the_same_picture_whatever_was_drawn_before(tmp_path):
    wanted = pictures.picture_of("w", [1.0, 0.97, 0.4])
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    draw(folders[0], [wanted])
    draw(
        folders[1],
        [pictures.picture_of("v", [0.995, 1.0, None]), pictures.picture_of("u", [0.1, 0.2, 0.3]), wanted],
    )
    first, second = ((folder / "w_similarities.png").read_bytes() for folder in folders)
    assert first == second


class TestNames:
    def test_a_parameter_called_summary_has_a_picture_of_its_own(self):
        files = {
            pictures.picture_of_summary([]).file_name,
            *(pictures.picture_of(name, []).file_name for name in ("summary", "%73ummary", "w")),
        }
        assert len(files) == 4
        assert "summary_similarities.png" in files

    def test_names_that_are_no_file_names(self, tmp_path):
        names = [
            "a/b",
            "..",
            ".",
            "$x_{1}$",
            "new\nline",
            "x" * 300,
            "x" * 299 + "y",
            "\u00fc" * 200,
            "\u4e2d\u6587",
            " ",
        ]
        draw(tmp_path, [pictures.picture_of(name, [1.0, 0.9, 0.8]) for name in names])
        assert len(list(tmp_path.iterdir())) == len(names)
        for path in tmp_path.iterdir():
            assert path.name.endswith("_similarities.png")
            assert len(colours(path, TITLE)) > 3


class TestTrouble:
    def test_without_matplotlib_the_rest_is_written_with_one_warning(self, tmp_path, monkeypatch, caplog):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        GradComparator.compare_distributed(DATA / "l1_a", DATA / "l1_a", tmp_path)
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warnings == [
            "matplotlib is not installed: the comparison is written without pictures; "
            "pip install 'msprobe[pictures]' installs it"
        ]
        assert (tmp_path / "rank0" / "similarities.csv").exists()
        assert (tmp_path / "report.html").exists()
        assert not (tmp_path / "rank0" / "similarities_picture").exists()

    def test_a_picture_that_cannot_be_written_leaves_the_others(self, tmp_path, caplog):
        (tmp_path / "w_similarities.png").mkdir()
        draw(tmp_path, [pictures.picture_of(name, [1.0, 0.9, 0.8]) for name in ("w", "v")])
        assert caplog.messages == ["1 of 2 pictures could not be drawn: w_similarities.png: Is a directory"]
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "v_similarities.png",
            "w_similarities.png",
        ]
