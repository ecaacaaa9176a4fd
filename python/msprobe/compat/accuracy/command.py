# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run_ut, multi_run_ut (acc_check, multi_acc_check) and api_precision_compare: exit code 0 when no
call is judged an error, 1 when one is, 2 on errors.
"""

from __future__ import annotations

import argparse
import os
import sys

from msprobe.commands import framework
from msprobe.files.regular_file import is_there
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, absent, add_place, add_screen
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compat.accuracy.run import RunUtOptions, RunUtResult

_EPILOG = "exit code: 0 no call is judged an error, 1 one is, 2 an error of the command"


def main(arguments: list[str]) -> int:
    parser = _parser(
        "run_ut", "Runs every call of a dump on the device and, in a raised precision, on the CPU."
    )
    asked = parser.parse_args(arguments)
    _check(parser, asked)
    from msprobe.compat.accuracy.run import check_dump

    options = _options(asked)
    if options.config.online is not None:
        return _check_online(options, asked)
    _require_dump(parser, asked)
    return _show(check_dump(asked.api_info, options), asked)


def multi_main(arguments: list[str]) -> int:
    parser = _parser("multi_run_ut", "run_ut by several processes, which write one result.")
    parser.add_argument(
        "-n",
        "--num_splits",
        dest="count",
        metavar="N",
        type=_number,
        default=8,
        help="processes, 1 to 64 (default: 8)",
    )
    asked = parser.parse_args(arguments)
    _check(parser, asked)
    _require_dump(parser, asked)
    from msprobe.compat.accuracy.parallel import check_dump_in_processes

    return _show(check_dump_in_processes(asked.api_info, _options(asked), asked.count), asked)


def _check_online(options: RunUtOptions, asked: argparse.Namespace) -> int:
    from msprobe.compat.accuracy.online import check_online

    results = check_online(options, lambda port: _say_ready(options, port))
    agrees = all(result.agrees for result in results.values())
    sentence = "No call is judged an error" if agrees else "Calls are judged errors"
    if asked.json:
        _print_json(
            agrees,
            ranks={
                rank: {
                    "steps": result.steps,
                    "counts": result.counts,
                    "files": [str(result.files.results), str(result.compare_results)],
                }
                for rank, result in sorted(results.items())
            },
        )
    if asked.json or asked.quiet:
        return 0 if agrees else 1
    print(Paint(sys.stdout).answer(sentence if results else "Nothing was checked", good=agrees))
    for rank, result in sorted(results.items()):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(result.counts.items()))
        print(f"  rank {rank}, {result.steps} steps: {counts or 'nothing was checked'}")
        for path in (result.files.results, result.compare_results):
            print(f"    {printable(str(path))}")
    return 0 if agrees else 1


def _say_ready(options: RunUtOptions, port: int) -> None:
    meeting = options.config.online
    assert meeting is not None
    place = meeting.nfs_path or f"{meeting.host}:{port}{' with TLS' if meeting.tls_path else ''}"
    ranks = ", ".join(map(str, options.config.rank_list))
    print(f"Waiting for rank {ranks} at {printable(place)}", file=sys.stderr, flush=True)


def _print_json(agrees: bool, **more: object) -> None:
    import json

    print(json.dumps({"agrees": agrees, **more}, indent=1))


def _show(result: RunUtResult, asked: argparse.Namespace) -> int:
    if asked.json:
        _print_json(result.agrees, counts=result.counts, files=[str(result.results), str(result.details)])
    if asked.json or asked.quiet:
        return 0 if result.agrees else 1
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.counts.items()))
    sentence = "No call is judged an error" if result.agrees else "Calls are judged errors"
    print(Paint(sys.stdout).answer(f"{sentence}: {counts or 'nothing was checked'}", good=result.agrees))
    for path in (result.results, result.details):
        print(f"  {printable(str(path))}")
    return 0 if result.agrees else 1


def _check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    if len(set(asked.devices)) != len(asked.devices):
        parser.error("-d: expected each device once")
    if asked.api_info and not is_there(asked.api_info):
        parser.error(absent(asked.api_info))
    for path in (asked.config, asked.csv_path):
        if path and not os.path.isfile(path):
            parser.error(absent(path))


def _require_dump(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    if not asked.api_info:
        parser.error("expected -api_info dump.json")
    framework.tell_of_other([asked.api_info])


def _options(asked: argparse.Namespace) -> RunUtOptions:
    from msprobe.compat.accuracy.config import RunUtConfig, load_run_ut_config
    from msprobe.compat.accuracy.run import RunUtOptions

    return RunUtOptions(
        output=asked.output or "./",
        devices=asked.devices,
        save_error_data=asked.save_error_data,
        jit_compile=asked.jit,
        continue_from=asked.csv_path,
        filter_api=asked.filter_api,
        config=load_run_ut_config(asked.config) if asked.config else RunUtConfig(),
        step=asked.step,
        rank=asked.rank,
        shows_progress=not asked.quiet,
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--out_path",
        "--output",
        dest="output",
        metavar="OUT",
        default="",
        help="folder of the results, made if needed (default: ./)",
    )


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"msprobe {name}", description=description, epilog=_EPILOG)
    add = parser.add_argument
    add(
        "-api_info",
        "--api_info_file",
        dest="api_info",
        metavar="FILE",
        default="",
        help="dump.json of level L1 or mix, its folder, or that of msprobe run; saved tensors beside it are "
        "used, else tensors are drawn",
    )
    add_place(parser)
    _add_output(parser)
    add("-save_error_data", action="store_true", help="keep the tensors of calls that do not pass")
    add("-j", "--jit_compile", dest="jit", action="store_true", help="compile operators; for the NPU")
    add(
        "-d",
        "--device",
        dest="devices",
        metavar="DEVICE",
        nargs="+",
        type=_device,
        default=[0],
        help="numbers of devices, or cpu (default: 0; where there is no accelerator: the CPU)",
    )
    add(
        "-csv_path",
        "--result_csv_path",
        dest="csv_path",
        metavar="RESULT",
        default="",
        help="accuracy_checking_result_{time}.csv of an interrupted run: it is continued",
    )
    add(
        "-f",
        "--filter_api",
        dest="filter_api",
        action="store_true",
        help="leave out later calls of a function whose arguments differ in their values only",
    )
    add(
        "-config",
        "--config_path",
        dest="config",
        metavar="CONFIG",
        default="",
        help='configuration with a section "run_ut": lists of functions, folder of error data',
    )
    add_screen(parser, "print the counts and the paths of the files as JSON")
    return parser


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 64):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 64, found {text!r}")
    return int(text)


def _device(text: str) -> int | str:
    if text == "cpu":
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise argparse.ArgumentTypeError(f"expected the number of a device, or cpu, found {text!r}")
    return int(text)


def compare_main(arguments: list[str]) -> int:
    parser = _compare_parser()
    asked = parser.parse_args(arguments)
    for path in (asked.npu, asked.gpu):
        if not os.path.isfile(path):
            parser.error(absent(path))
    from msprobe.compat.accuracy.precision_compare import api_precision_compare
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        result = api_precision_compare(asked.npu, asked.gpu, asked.output or "./")
    bad = [name for name, pair in result.statuses.items() if "error" in pair]
    sentence = (
        f"{len(bad)} of {len(result.statuses)} calls are judged errors"
        if bad
        else (f"No call is judged an error: {len(result.statuses)} compared")
    )
    if asked.json:
        import json

        content = {
            "agrees": not bad,
            "calls": {name: list(pair) for name, pair in result.statuses.items()},
            "files": [str(result.results), str(result.details)],
        }
        print(json.dumps(content, indent=1))
    if asked.json or asked.quiet:
        return 1 if bad else 0
    print(Paint(sys.stdout).answer(sentence, good=not bad))
    for name in bad[:10]:
        print(f"  {printable(name)}")
    for path in (result.results, result.details):
        print(f"  {printable(str(path))}")
    return 1 if bad else 0


def _compare_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe api_precision_compare",
        description="Compares the errors of a device with those of a trusted device, operator by operator.",
        epilog="exit code: 0 no call is judged an error, 1 one is, 2 an error of the command",
    )
    add = parser.add_argument
    add(
        "-npu",
        "--npu_csv_path",
        dest="npu",
        metavar="DETAILS",
        required=True,
        help="accuracy_checking_details_{time}.csv of the device that you examine",
    )
    add(
        "-gpu",
        "--gpu_csv_path",
        dest="gpu",
        metavar="DETAILS",
        required=True,
        help="accuracy_checking_details_{time}.csv of the device that you trust",
    )
    _add_output(parser)
    add_screen(parser, "print the status of each call, forward and backward, as JSON")
    return parser
