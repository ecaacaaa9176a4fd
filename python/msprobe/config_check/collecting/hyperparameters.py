# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameters from launch scripts, files of settings and the objects of a running program."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config_check.collecting.shell_script import launch_options
from msprobe.files.credentials import concealed, concealed_in
from msprobe.files.regular_file import open_to_read
from msprobe.native import FormatError, InvalidArgument, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Parameters = dict[str, Any]

_LARGEST_FILE = 16 << 20
_MOST_PARAMETERS = 100_000  # a YAML file of a few lines can stand for billions
_MOST_MERGED = 100_000  # the same of its key <<
_DEEPEST = 32
_LONGEST_LIST = 1000
_LONGEST_TEXT = 10_000

# Where a Megatron keeps its arguments.
_MEGATRON = (("megatron.training.global_vars", "_GLOBAL_ARGS"), ("megatron.global_vars", "_GLOBAL_ARGS"))
_MEGATRON_GETTERS = ("megatron.training", "megatron")


# ---- files


def check_paths(paths: object) -> list[Path]:
    """Of the argument shell_path and the option -d. Raises InvalidArgument."""
    if not isinstance(paths, (list, tuple)) or not all(
        isinstance(path, (str, os.PathLike)) for path in paths
    ):
        raise InvalidArgument(f"shell_path should be a list of file paths. Found {type(paths).__name__}")
    found = [Path(path) for path in paths]
    for path in found:
        if path.suffix not in _READERS:
            raise InvalidArgument(
                f"Invalid parser type: {path.suffix or path.name}: {path}: expected a file that ends in "
                f"{', '.join(_READERS)}"
            )
    return found


def of_files(paths: Sequence[Path]) -> Parameters:
    """Of all files together. What cannot be read is left out with a warning."""
    merged: Parameters = {}
    for path in paths:
        if not path.is_file():
            log.warning("Script path %s is not a file: it is left out", path)
            continue
        try:
            found = _READERS[path.suffix](_text(path))
        except (FormatError, OSError, RecursionError, ValueError) as error:  # numbers of too many digits
            log.warning("%s cannot be read, it is left out: %s", path, error)
            continue
        if not found:
            log.warning("%s: found no hyper-parameters", path)
        merge(merged, found)
    return merged


def _text(path: Path) -> str:
    with open_to_read(path) as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise FormatError(f"expected at most {_LARGEST_FILE} bytes")
    return content.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


def _of_shell(text: str) -> Parameters:
    return {concealed_in(key): _plain(key, value, 0) for key, value in launch_options(text).items()}


def _of_json(text: str) -> Parameters:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise FormatError(f"expected JSON: {error}") from error
    return flattened(tree)


def _of_yaml(text: str) -> Parameters:
    import yaml

    class Loader(yaml.SafeLoader):
        """Tags of programs are no reason to give up: their values are taken as they stand."""

        merged = 0

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Copies what << names, the copies of copies, too."""
            before = len(node.value)
            super().flatten_mapping(node)  # type: ignore[no-untyped-call, unused-ignore]
            self.merged += max(0, len(node.value) - before)
            if self.merged > _MOST_MERGED:
                raise FormatError(f"expected at most {_MOST_MERGED} merged keys, found more")

    def untagged(loader: Loader, _: str, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else None

    Loader.add_multi_constructor("!", untagged)
    Loader.add_multi_constructor("tag:yaml.org,2002:python/", untagged)
    try:
        trees = list(yaml.load_all(text, Loader=Loader))
    except FormatError:
        raise
    except (yaml.YAMLError, ValueError, TypeError) as error:  # dates and numbers that are none
        raise FormatError(f"expected YAML: {_yaml_problem(error)}") from error
    merged: Parameters = {}
    for tree in trees:
        merge(merged, flattened(tree))
    return merged


def _yaml_problem(error: Exception) -> str:
    """Without the piece of the file that a mark shows: it may be a password."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


_READERS: dict[str, Callable[[str], Parameters]] = {
    ".sh": _of_shell,
    ".yaml": _of_yaml,
    ".yml": _of_yaml,
    ".json": _of_json,
}


def merge(into: Parameters, found: Parameters) -> None:
    """Adds parameters; of another value for the same name both are kept, as mindstudio-probe has it."""
    for name, value in found.items():
        if name not in into:
            into[name] = value
        elif into[name] != value or isinstance(into[name], bool) != isinstance(value, bool):
            into[name] = {"description": "duplicate_value", "values": [into[name], value]}


# ---- objects of a running program


def of_objects(objects: object) -> Parameters:
    """Of a mapping, a namespace, a dataclass (as the TrainingArguments of transformers), an object of
    OmegaConf, one with to_dict(), a path to a settings file, or a list of these. Raises InvalidArgument.
    """
    merged: Parameters = {}
    for one in objects if isinstance(objects, (list, tuple)) else [objects]:
        if isinstance(one, (str, os.PathLike)):
            merge(merged, of_files(check_paths([one])))
            continue
        tree = _as_mapping(one)
        if tree is None:
            raise InvalidArgument(
                "hyperparameters: expected a mapping, a namespace, a dataclass, an OmegaConf object, one "
                f"with to_dict(), or the path of a file, found {type(one).__name__}"
            )
        merge(merged, flattened(tree))
    return merged


def of_megatron() -> Parameters | None:
    """The arguments of a Megatron that has parsed them; None without one."""
    for module_name, attribute in _MEGATRON:
        namespace = getattr(sys.modules.get(module_name), attribute, None)
        if namespace is not None:
            return flattened(vars(namespace))
    for module_name in _MEGATRON_GETTERS:
        get_args = getattr(sys.modules.get(module_name), "get_args", None)
        if callable(get_args):
            try:
                return flattened(vars(get_args()))
            except (AssertionError, AttributeError, TypeError) as error:  # nothing is parsed yet
                log.debug("%s.get_args(): %s", module_name, error)
    return None


def flattened(tree: object) -> Parameters:
    """Nested keys joined with dots; a list of scalars is one value. Raises FormatError for more parameters
    than any training has.
    """
    result: Parameters = {}
    for name, value in _leaves("" if _as_mapping(tree) is not None else "value", tree, 0):
        if len(result) >= _MOST_PARAMETERS:
            raise FormatError(f"expected at most {_MOST_PARAMETERS} parameters, found more")
        written = concealed_in(name)
        if written not in result:
            result[written] = _plain(name, value, 0)
    return result


def _leaves(name: str, node: object, depth: int) -> Iterator[tuple[str, object]]:
    if depth > _DEEPEST:
        raise FormatError(f"{name[:80]}: expected at most {_DEEPEST} levels of settings")
    tree = None if isinstance(node, type) else _as_mapping(node)
    if tree is not None:
        for key, value in tree.items():
            text = "true" if key is True else "false" if key is False else str(key)
            yield from _leaves(f"{name}.{text}" if name else text, value, depth + 1)
        return
    if isinstance(node, (list, tuple)):
        nested = [item for item in node if _is_nested(item)]
        scalars = [item for item in node if not _is_nested(item)]
        if scalars or not nested:
            yield name, scalars
        for index, item in enumerate(nested):
            yield from _leaves(name if len(nested) == 1 else f"{name}.{index}", item, depth + 1)
        return
    yield name, node


def _is_nested(item: object) -> bool:
    return isinstance(item, (list, tuple)) or (not isinstance(item, type) and _as_mapping(item) is not None)


def _as_mapping(node: object) -> Mapping[Any, Any] | None:
    if type(node).__module__.partition(".")[0] == "omegaconf":
        # Is a mapping, too, but one that fails where a value is missing.
        return _of_omegaconf(node)
    if isinstance(node, Mapping):
        return node
    if isinstance(node, argparse.Namespace):
        return vars(node)
    if isinstance(node, (enum.Enum, type)):
        return None
    if dataclasses.is_dataclass(node):
        return {field.name: getattr(node, field.name, None) for field in dataclasses.fields(node)}
    to_dict = getattr(node, "to_dict", None)
    if callable(to_dict):
        tree = to_dict()
        return tree if isinstance(tree, Mapping) else None
    return None


def _of_omegaconf(node: object) -> Mapping[Any, Any] | None:
    from omegaconf import OmegaConf  # type: ignore[import-not-found, unused-ignore]

    tree = OmegaConf.to_container(node, resolve=False)
    return tree if isinstance(tree, Mapping) else None


def _plain(name: str, value: object, depth: int) -> Any:
    """A value as JSON has it, the same in every run: no addresses. Credentials are hashed."""
    if isinstance(value, enum.Enum):
        value = value.name
    if value is None or isinstance(value, (bool, int, float)):
        plain = value
        secret = (
            concealed(name, str(value), of_model=True) if not isinstance(value, (bool, type(None))) else ""
        )
        return secret if secret.startswith("<secret") else plain
    if isinstance(value, (str, os.PathLike)):
        return concealed(name, str(value)[:_LONGEST_TEXT], of_model=True)
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)) and depth < _DEEPEST:
        return [_plain(name, item, depth + 1) for item in value[:_LONGEST_LIST]]
    if isinstance(value, (type, type(len), type(check_paths))):
        return f"{value.__module__}.{value.__qualname__}"
    text = str(value)
    if " at 0x" in text or len(text) > _LONGEST_TEXT:
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return concealed(name, text, of_model=True)
