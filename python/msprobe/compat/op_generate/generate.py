# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""op_generate: a script that runs one recorded call on a device and, raised, on the CPU, and prints how
far both are apart.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msprobe.compat.mindspore_calls import MindSporeDump, PortedCall, is_of_mindspore, ported
from msprobe.compat.operator_standards import Standard, standard_of
from msprobe.files.atomic_file import write_text
from msprobe.files.dump_folders import framework_of
from msprobe.files.page import file_beside
from msprobe.files.regular_file import read_text
from msprobe.frameworks.mindspore.calls import path_of
from msprobe.native import FormatError, InvalidArgument, IoError, UnsupportedError, log
from msprobe.replay.arguments import dtype_named
from msprobe.replay.dump_file import Dump, RecordedCall
from msprobe.reproduce.code import ArgumentCode, function_code, identifier, literal, shape_code

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import NoReturn

_LONGEST_NAME = 30
_MOST_ITERATIONS = 1000
_PROPAGATIONS = ("forward", "backward")
_DATA_MODES = ("random_data", "real_data")
# As the scripts of mindstudio-probe call them.
_STANDARD_NAMES = {
    Standard.ABSOLUTE_THRESHOLD: "Absolute Threshold Standard",
    Standard.BINARY: "Binary Equality Standard",
    Standard.ULP: "ULP error Standard",
    Standard.THOUSANDTH: "Thousandth Standard",
}


@dataclass(frozen=True)
class OpConfig:
    """config_op.json."""

    dump_json_path: str
    """Empty: `extract_api_path` is there already."""
    api_name: str
    extract_api_path: str
    propagation: str = "forward"
    data_mode: str = "random_data"
    random_seed: int = 1234
    iter_times: int = 1

    @property
    def iterations(self) -> int:
        return 1 if self.data_mode == "real_data" else self.iter_times


def load_op_config(path: str) -> OpConfig:
    """Raises FormatError, IoError, and InvalidArgument that names file and key."""
    content = _read_object(path)

    def get(key: str, default: object) -> _Value:
        return _Value(path, key, content.get(key, default))

    dump = _text(get("dump_json_path", ""))
    of_mindspore = bool(dump) and framework_of(Path(dump)) == "mindspore"
    return OpConfig(
        dump_json_path=dump,
        api_name=_name(get("api_name", None)),
        extract_api_path=_extract_path(get("extract_api_path", None), of_mindspore),
        propagation=_word(get("propagation", "forward"), _PROPAGATIONS),
        data_mode=_word(get("data_mode", "random_data"), _DATA_MODES),
        random_seed=_whole(get("random_seed", 42 if of_mindspore else 1234), None),
        iter_times=_whole(get("iter_times", 1), _MOST_ITERATIONS),
    )


@dataclass(frozen=True)
class _Value:
    file: str
    key: str
    value: object

    def fail(self, expected: str) -> NoReturn:
        raise InvalidArgument(f'{self.file}: "{self.key}": {expected}, found {self.value!r}')


def _read_object(path: str) -> dict[str, Any]:
    """Of Python's JSON, which dumps are: with NaN and Infinity."""
    try:
        content = json.loads(read_text(path, encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON: {error}") from None
    except OSError as error:
        raise IoError(f"{path}: cannot read: {error.strerror}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path}: expected an object, found {type(content).__name__}")
    return content


def _text(value: _Value) -> str:
    if not isinstance(value.value, str):
        value.fail("expected text")
    return value.value


def _word(value: _Value, allowed: Collection[str]) -> str:
    if value.value not in allowed:
        value.fail(f"{value.key} is invalid, expected one of {', '.join(allowed)}")
    return str(value.value)


def _name(value: _Value) -> str:
    name = _text(value)
    if not name or len(name) > _LONGEST_NAME:
        value.fail(f"expected a name such as Functional.softmax.0, at most {_LONGEST_NAME} characters")
    return name


def _extract_path(value: _Value, of_mindspore: bool) -> str:
    path = _text(value)
    if not path or (not path.endswith(".json") and not of_mindspore):
        value.fail("expected the name of a file that ends in .json")
    return path


def _whole(value: _Value, most: int | None) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int):
        value.fail(f"{value.key} is invalid, it should be an int")
    if most is not None and not 1 <= number <= most:
        value.fail(f"{value.key} should be from 1 to {most}")
    return number


# ---- the extracted entries


def extract(config: OpConfig) -> None:
    """Writes the entries of the call into `extract_api_path`, names of tensor files as whole paths. Raises
    InvalidArgument where the dump has no such call.
    """
    is_mindspore = framework_of(Path(config.dump_json_path)) == "mindspore"
    dump = (MindSporeDump if is_mindspore else Dump)(config.dump_json_path)
    if config.api_name not in dump.names:
        raise InvalidArgument(f"{config.dump_json_path}: there is no call {config.api_name!r}")
    call = dump.call(config.api_name)
    entries: dict[str, Any] = {f"{call.name}.forward": call.forward}
    if call.backward is not None:
        entries[f"{call.name}.backward"] = call.backward
    if dump.folder is not None:
        _use_whole_paths(entries, os.path.abspath(dump.folder))
    write_text(Path(config.extract_api_path), json.dumps(entries, indent=4))
    log.info(
        "The api '%s' has been successfully extracted and saved in: %s", call.name, config.extract_api_path
    )


def _use_whole_paths(value: Any, folder: str) -> None:
    """Of the files of tensors."""
    if isinstance(value, dict):
        name = value.get("data_name")
        if isinstance(name, str):
            value["data_name"] = os.path.join(folder, os.path.basename(name))
    if isinstance(value, (dict, list)):
        for entry in value.values() if isinstance(value, dict) else value:
            _use_whole_paths(entry, folder)


def read_extracted(config: OpConfig) -> RecordedCall:
    """Raises IoError, FormatError, InvalidArgument."""
    path = config.extract_api_path
    content = _read_object(path)
    names = [key for key in content if key.endswith(".forward")]
    others = [key for key in content if not key.endswith((".forward", ".backward"))]
    if len(names) != 1 or others or len(content) > 2:
        raise FormatError(f"{path}: expected one call: an entry .forward, and at most one .backward")
    name = names[0].removesuffix(".forward")
    backward = content.get(f"{name}.backward")
    for entry in (content[names[0]], *([backward] if backward is not None else [])):
        if not isinstance(entry, dict):
            raise FormatError(f"{path}: expected objects as entries")
    return RecordedCall(
        name, cast("dict[str, Any]", content[names[0]]), cast("dict[str, Any] | None", backward)
    )


# ---- the script


def generate(config_path: str, output: str) -> Path:
    """Writes {output}/{api_name}.{propagation}.py and returns its path. Raises InvalidArgument, FormatError,
    UnsupportedError, IoError.
    """
    config = load_op_config(config_path)
    if not os.path.isdir(output):
        raise InvalidArgument(f"{output}: expected a folder that exists")
    if config.dump_json_path:
        extract(config)
    call = read_extracted(config)
    path = Path(output) / f"{call.name}.{config.propagation}.py"
    write_text(path, script(call, config))
    log.info("Generate operator script successfully and the name is %s.", path)
    return path


def script(call: RecordedCall, config: OpConfig) -> str:
    """The whole text."""
    if not call.name.rpartition(".")[2].isdecimal():  # it becomes the name of a file
        raise FormatError(f"{config.extract_api_path}: {call.name!r}: expected a number at the end")
    if is_of_mindspore(call):
        return _script_of_mindspore(ported(call), config)
    return _script(call, config, file_beside(__file__, "standalone.txt"), _ON_A_DEVICE)


def _script_of_mindspore(found: PortedCall, config: OpConfig) -> str:
    path = path_of(found.callee)
    if path is None:
        raise UnsupportedError(f"{found.name}: expected a call of a function of ops, mint or Tensor")
    head = file_beside(__file__, "standalone.txt") + file_beside(__file__, "standalone_mindspore.txt")
    keywords = {key: own for key, own in found.keywords.items() if key != own}
    renamed = f"{{{', '.join(f'{literal(key)}: {literal(own)}' for key, own in keywords.items())}}}"
    body = _BESIDE_PYTORCH.replace("@name@", literal(found.name)).replace("@mindspore@", path)
    return _script(found.call, config, head, body.replace("@renamed@", renamed), title=found.name)


# What main() does with the arguments.
_ON_A_DEVICE = """    device, cpu = find_device(), torch.device("cpu")
    torch.manual_seed(@seed@)
    for iteration in range(@iterations@):
        print(f"iter: {iteration}:")
        args, kwargs, gradients = arguments()
        on_device = run(@function@, *moved([args, kwargs, gradients], device))
        on_bench = run(@function@, *moved([args, kwargs, gradients], cpu, raised=True))
        compare(on_device, on_bench, "@standard@")
"""
_BESIDE_PYTORCH = """    cpu, rows, own = torch.device("cpu"), [], @renamed@
    torch.manual_seed(@seed@)
    for iteration in range(@iterations@):
        print(f"iter: {iteration}:")
        args, kwargs, gradients = arguments()
        named = {own.get(key, key): value for key, value in kwargs.items()}
        tested = run_mindspore(@mindspore@, args, named, gradients)
        bench = run(@function@, *moved([args, kwargs, gradients], cpu, raised=True))
        rows += report(@name@, "@direction@", tested, bench)
    write_files(@name@, "@direction@", rows)
"""


def _script(call: RecordedCall, config: OpConfig, head: str, body: str, title: str = "") -> str:
    code = ArgumentCode(_tensor_code(config))
    function = function_code(call)  # also refuses names that would be no file name
    args = [code.add(f"arg_{i}", value) for i, value in enumerate(call.args)]
    kwargs = [
        f"{literal(key)}: {code.add(f'kwarg_{identifier(key)}', value)}" for key, value in call.kwargs.items()
    ]
    gradients = "None"
    if config.propagation == "backward":
        gradients = f"[{', '.join(_gradients(call, config, code))}]"
    standard = _STANDARD_NAMES.get(standard_of(call.function), "Benchmark Standard")
    lines = "\n".join(f"    {line}" for line in code.lines)
    for key, value in (
        ("seed", config.random_seed),
        ("iterations", config.iterations),
        ("function", function),
        ("standard", standard),
        ("direction", config.propagation),
    ):
        body = body.replace(f"@{key}@", str(value))
    return f'''{head}

# ---- the call: {title or call.name}, {config.propagation}


def arguments():
    """The arguments, the keyword arguments, and the gradients of the results."""
{lines}
    return [{", ".join(args)}], {{{", ".join(kwargs)}}}, {gradients}


def main() -> None:
{body}

if __name__ == "__main__":
    main()
'''


def _tensor_code(config: OpConfig) -> Any:
    def code(record: dict[str, Any]) -> str:
        flag = ", requires_grad=True" if record.get("requires_grad") is True else ""
        name = record.get("data_name")
        if config.data_mode == "real_data" and isinstance(name, str):
            # A NumPy file has bfloat16 as float32.
            kind = f", dtype={dtype_named(record.get('dtype'))}" if name.endswith(".npy") else ""
            return f"real_tensor({literal(name)}{flag}{kind})"
        low, high = record.get("Min"), record.get("Max")
        if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
            raise FormatError(
                f'"Min", "Max": expected numbers to make a tensor from, found {low!r}, {high!r}'
            )
        dtype = dtype_named(record.get("dtype"))
        return f"random_tensor({shape_code(record)}, {dtype}, {literal(low)}, {literal(high)}{flag})"

    return code


def _gradients(call: RecordedCall, config: OpConfig, code: ArgumentCode) -> list[str]:
    recorded = None if call.backward is None else call.backward.get("grad_input", call.backward.get("input"))
    if not isinstance(recorded, list):
        raise InvalidArgument(
            f"{config.extract_api_path}: propagation backward needs the entries .forward and .backward"
        )
    return [code.add(f"gradient_{i}", value) for i, value in enumerate(recorded)]
