# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The monitor beside what others bring: torch.compile, optimizers of Megatron and DeepSpeed (stand-ins with
their documented attributes), webhooks and commands, trackers of experiments, full disks and killed processes.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
import training_sample
from monitor_record import Record
from torch import nn
from training_sample import make_training, train

LIMIT = {"rule": "limit", "name": "mine", "series": ["weight.norm"], "threshold": 1e-6, "warm_up": 2}


# ---- torch.compile


def test_a_compiled_model_has_no_graph_break_and_no_further_graph(start: Any, tmp_path: Path) -> None:
    from torch._dynamo.utils import counters

    def run(monitored: bool) -> tuple[list[float], dict[str, int], list[Any]]:
        torch._dynamo.reset()
        counters.clear()
        net, optimizer = make_training()
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        monitor = start(compiled, optimizer, quantities=["all"], every=2) if monitored else None
        losses = train(compiled, optimizer, steps=4)
        if monitor is not None:
            monitor.close()
        return losses, dict(counters["stats"]), [p.detach().clone() for p in net.parameters()]

    losses, graphs, weights = run(False)
    found, graphs_with, weights_with = run(True)
    assert found == losses
    assert all(torch.equal(a, b) for a, b in zip(weights, weights_with))
    assert not counters["graph_break"]
    assert graphs_with["unique_graphs"] == graphs["unique_graphs"]
    record = Record(tmp_path / "run")
    assert record.steps == [0, 2]
    assert len(record["gradient.norm/layers.0.fc.weight"]) == 2
    assert len(record["weight.norm"]) == 2
    # Of modules the compiled one alone, from outside.
    assert record.keys("activation.rms") == ["activation.rms"]
    assert record.keys("activation_gradient.rms") == ["activation_gradient.rms"]
    assert len(record["activation.rms"]) == 2


def test_a_sequence_of_modules_that_is_compiled_in_place(start: Any, tmp_path: Path) -> None:
    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    net.compile(backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer, quantities=["activation"])
    output = net(torch.ones(2, 3))
    output.sum().backward()
    optimizer.step()
    monitor.close()
    record = Record(tmp_path / "run")
    assert record.keys("activation.abs_max") == ["activation.abs_max"]
    assert record["activation.abs_max"][0] == pytest.approx(float(output.detach().abs().max()))


# ---- optimizers


class MegatronDistributedOptimizer:
    """Holds the second half of two parameters in float32, flat; gradients are in main_grad."""

    def __init__(self, parameters: list[Any]) -> None:
        self.model_float16_groups = [parameters]
        self.shards = [p.detach().float().reshape(-1)[p.numel() // 2 :].clone() for p in parameters]
        self.shard_fp32_from_float16_groups = [self.shards]
        self.optimizer = torch.optim.Adam(self.shards, lr=1e-2)
        self.param_groups = self.optimizer.param_groups

    def _get_model_param_range_map(self, parameter: Any) -> dict[str, Any]:
        class Range:
            start = parameter.numel() // 2

        return {"param": Range}

    def step(self) -> None:
        parameters = self.model_float16_groups[0]
        for parameter, shard in zip(parameters, self.shards):
            shard.grad = parameter.main_grad.float().reshape(-1)[parameter.numel() // 2 :]
        self.optimizer.step()
        for parameter, shard in zip(parameters, self.shards):
            parameter.detach().reshape(-1)[parameter.numel() // 2 :] = shard.to(parameter.dtype)


class ChainedOptimizer:
    def __init__(self, optimizers: list[Any]) -> None:
        self.chained_optimizers = optimizers
        self.param_groups = [group for one in optimizers for group in one.param_groups]

    def step(self) -> None:
        for one in self.chained_optimizers:
            one.step()


@pytest.mark.parametrize("chained", [False, True])
def test_the_optimizers_of_megatron(chained: bool, start: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False)).to(torch.bfloat16)
    parameters = list(net.parameters())
    if chained:
        optimizer: Any = ChainedOptimizer([MegatronDistributedOptimizer([one]) for one in parameters])
        parts = optimizer.chained_optimizers
    else:
        optimizer = MegatronDistributedOptimizer(parameters)
        parts = [optimizer]
    for parameter in parameters:
        parameter.main_grad = torch.zeros(parameter.shape)
    monitor = start(net, optimizer, quantities=["gradient", "weight", "moment", "update"])
    expected = []
    for step in range(2):
        for parameter in parameters:
            parameter.main_grad = torch.full(parameter.shape, step + 1.0)
        optimizer.step()
        expected.append([part.optimizer.state[shard] for part in parts for shard in part.shards])
    monitor.close()
    record = Record(tmp_path / "run")
    assert record.steps == [0, 1]
    for index, parameter in enumerate(parameters):
        half = parameter.numel() // 2
        of_parameter = record[f"gradient.norm/{index}.weight"]
        assert of_parameter == {0: pytest.approx(math.sqrt(half)), 1: pytest.approx(2 * math.sqrt(half))}
        moment = float(expected[-1][index]["exp_avg"].double().norm())
        assert record[f"moment.norm/{index}.weight"][1] == pytest.approx(moment)
        assert record[f"update.distance/{index}.weight"][0] == pytest.approx(1e-2 * math.sqrt(half), rel=1e-3)


class Float16OptimizerWithFloat16Params:
    """Whole masters in float32; gradients in main_grad are multiplied with the loss scale until step()."""

    def __init__(self, parameters: list[Any]) -> None:
        self.float16_groups = [parameters]
        self.fp32_from_float16_groups = [[p.detach().float().clone() for p in parameters]]
        self.optimizer = torch.optim.Adam(self.fp32_from_float16_groups[0], lr=1e-2)
        self.param_groups = self.optimizer.param_groups

    def get_loss_scale(self) -> Any:
        return torch.tensor([8.0])

    def step(self) -> None:
        for parameter, master in zip(self.float16_groups[0], self.fp32_from_float16_groups[0]):
            master.grad = parameter.main_grad.float() / 8
        self.optimizer.step()
        for parameter, master in zip(self.float16_groups[0], self.fp32_from_float16_groups[0]):
            parameter.data.copy_(master)


def test_the_float16_optimizer_of_megatron(start: Any, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 2, bias=False)).to(torch.float16)
    (parameter,) = net.parameters()
    parameter.main_grad = torch.full(parameter.shape, 16.0)
    optimizer = Float16OptimizerWithFloat16Params([parameter])
    monitor = start(net, optimizer, quantities=["gradient", "moment", "update"])
    optimizer.step()
    monitor.close()
    record = Record(tmp_path / "run")
    assert record["gradient.norm/0.weight"] == {0: pytest.approx(2 * math.sqrt(8))}
    assert record["moment.norm/0.weight"] == {0: pytest.approx(0.2 * math.sqrt(8))}
    assert record["update.distance/0.weight"] == {0: pytest.approx(1e-2 * math.sqrt(8), rel=1e-3)}


class Fragment:
    """What DeepSpeed's ZeRO 1 and 2 hang on a parameter."""

    def __init__(self, parameter: Any) -> None:
        self.hp_fragment = parameter.detach().float().reshape(-1).clone()
        self.optim_fragment: dict[str, Any] = {}
        self.gradient: Any = None
        self.param_group_index = 0

    def get_lp_grad_fragment(self, index: int) -> Any:
        return self.gradient


class DeepSpeedZeroOptimizer:
    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.param_groups = [
            {"params": [p._hp_mapping.hp_fragment for p in parameters], "lr": 0.1, "step": 0}
        ]

    def step(self) -> None:
        for parameter in self.parameters:
            fragment = parameter._hp_mapping
            fragment.optim_fragment = {"exp_avg": fragment.gradient * 0.1, "exp_avg_sq": fragment.gradient**2}
            fragment.hp_fragment.sub_(fragment.gradient * 0.1)
            parameter.data.copy_(fragment.hp_fragment.reshape(parameter.shape))


class DeepSpeedZeroOptimizer_Stage3:  # noqa: N801  # the name is what is looked for
    def __init__(self, parameters: list[Any]) -> None:
        self.parts = {id(p): {None: p.detach().float().reshape(-1)[:3].clone()} for p in parameters}
        self.gradients: dict[int, Any] = {}
        self.param_groups = [{"params": [], "lr": 0.1}]

    def get_local_fp32_grad_for_param(self, parameter: Any) -> Any:
        return self.gradients[id(parameter)]

    def get_local_fp32_param(self, parameter: Any, key: Any = None) -> Any:
        return self.parts[id(parameter)][key]

    def step(self) -> None:
        for key, part in self.parts.items():
            part["exp_avg"] = self.gradients[key] * 0.1
            part["exp_avg_sq"] = self.gradients[key] ** 2
            part[None].sub_(self.gradients[key] * 0.1)


@pytest.mark.parametrize("stage", [2, 3])
def test_the_optimizers_of_deepspeed(stage: int, start: Any, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 2, bias=False)).to(torch.bfloat16)
    (parameter,) = net.parameters()
    gradient = torch.arange(1.0, 9.0)
    if stage == 2:
        parameter._hp_mapping, parameter._index_in_param_group = Fragment(parameter), 0
        optimizer: Any = DeepSpeedZeroOptimizer([parameter])
        parameter._hp_mapping.gradient = gradient
    else:
        gradient = gradient[:3]
        parameter.ds_id, parameter.ds_tensor = 0, parameter.detach()
        optimizer = DeepSpeedZeroOptimizer_Stage3([parameter])
        optimizer.gradients[id(parameter)] = gradient
    monitor = start(net, optimizer, quantities=["gradient", "moment", "update"])
    optimizer.step()
    optimizer.step()
    monitor.close()
    norm = float(gradient.double().norm())
    record = Record(tmp_path / "run")
    for key, expected in (
        ("gradient.norm", norm),
        ("moment.norm", norm * 0.1),
        ("update.distance", norm * 0.1),
    ):
        assert record[f"{key}/0.weight"] == dict.fromkeys((0, 1), pytest.approx(expected, rel=1e-5))


# ---- what an alarm does


def test_a_webhook_and_a_command_get_the_alarm(start: Any, tmp_path: Path) -> None:
    got: list[Any] = []
    arrived = threading.Event()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(
                (
                    self.headers["Content-Type"],
                    json.loads(self.rfile.read(int(self.headers["Content-Length"]))),
                )
            )
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    keep = 'cat > "$0"; printf "\\n%s" "$MSPROBE_ALARM" >> "$0"'
    alarm = {
        "webhook": f"http://127.0.0.1:{server.server_port}/alarm",
        "command": ["sh", "-c", keep, str(tmp_path / "said")],
    }
    net, optimizer = make_training()
    start(net, optimizer, rules=[LIMIT], alarm=alarm)
    train(net, optimizer, steps=4)
    assert arrived.wait(30)
    server.shutdown()
    server.server_close()
    written = json.loads((tmp_path / "run" / "alarms.jsonl").read_text().splitlines()[0])
    assert got[0] == ("application/json", written)
    assert (written["rule"], written["series"]) == ("mine", "weight.norm")
    wait_for(lambda: (tmp_path / "said").exists() and "\n" in (tmp_path / "said").read_text())
    assert [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()] == [written] * 2


def test_a_webhook_that_nobody_answers_is_a_warning(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    net, optimizer = make_training()
    start(
        net, optimizer, rules=[LIMIT], alarm={"webhook": "http://127.0.0.1:9/nobody", "command": ["/no/such"]}
    )
    assert len(train(net, optimizer, steps=4)) == 8
    for word in ("webhook", "command"):
        wait_for(
            lambda word=word: any(f"the {word} of an alarm" in entry.message for entry in caplog.records)
        )


def test_a_flood_of_alarms_has_a_few_threads_and_processes(start: Any, tmp_path: Path) -> None:
    """The webhook never answers, and the command does not end before it is told to."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    alarm = {
        "cooldown": 0,
        "webhook": f"http://127.0.0.1:{listening.getsockname()[1]}/",
        "command": ["sh", "-c", 'echo x >> "$0"; read -r _ < "$1"', str(tmp_path / "begun"), str(fifo)],
    }
    before = threading.active_count()
    net, optimizer = make_training()
    start(net, optimizer, rule=lambda numbers, step: next(iter(numbers)), alarm=alarm)
    train(net, optimizer, steps=40)
    assert threading.active_count() - before <= 8
    wait_for(lambda: (tmp_path / "begun").exists() and len((tmp_path / "begun").read_text()) == 8)
    with open(fifo, "w") as end:
        end.write("\n" * 4)
        end.flush()
        wait_for(lambda: threading.active_count() - before <= 4)
    listening.close()


def test_an_armed_dump_records_the_next_step_and_changes_nothing(start: Any, tmp_path: Path) -> None:
    plain, of_plain = make_training()
    losses = train(plain, of_plain, steps=6)
    net, optimizer = make_training()
    monitor = start(net, optimizer, rules=[LIMIT], alarm={"dump": True, "most_dumps": 1})
    assert train(net, optimizer, steps=6) == losses
    monitor.close()
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), net.parameters()))
    alarm = json.loads((tmp_path / "run" / "alarms.jsonl").read_text().splitlines()[0])
    (folder,) = (tmp_path / "run" / "dump").iterdir()
    assert folder.name == f"step{alarm['step'] + 1}"
    (dump,) = folder.rglob("dump.json")
    data = json.loads(dump.read_text())["data"]
    assert any(name.startswith("Module.fc1") for name in data)


def test_a_step_that_the_script_puts_on_the_class_of_the_optimizer_is_obeyed(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.optim.Adam.step

    def turned(self: Any, *args: Any, **kwargs: Any) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(-0.5)
        return original(self, *args, **kwargs)

    def losses(watched: bool) -> list[float]:
        torch.manual_seed(3)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        monitor = start(net, optimizer) if watched else None
        found = []
        for step in range(5):
            monkeypatch.setattr(torch.optim.Adam, "step", turned if step >= 2 else original)
            loss = net(torch.ones(3, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        if monitor is not None:
            monitor.close()
        return found

    assert losses(watched=True) == losses(watched=False)


# ---- trackers of experiments, each where it is installed


def test_wandb(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="p", dir=str(tmp_path)) as run:
        net, optimizer = make_training()
        monitor = start(net, optimizer, callback=wandb.log)
        train(net, optimizer, steps=3)
        monitor.close()
        record = Record(tmp_path / "run")  # the last step is on its way until the run is finished
        assert run.summary["gradient.norm"] == record["gradient.norm"][1]
        assert run.summary["gradient.norm/fc1.weight"] == record["gradient.norm/fc1.weight"][1]


@pytest.mark.filterwarnings("ignore")  # of the packages that it is made of
def test_mlflow(start: Any, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        net, optimizer = make_training()
        monitor = start(net, optimizer, callback=mlflow.log_metrics)
        train(net, optimizer, steps=2)
        monitor.close()
    record = Record(tmp_path / "run")
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "gradient.norm/fc1.weight")
    assert {point.step: point.value for point in history} == record["gradient.norm/fc1.weight"]


def test_trackio(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    seen = []
    log = trackio.Run.log
    monkeypatch.setattr(trackio.Run, "log", lambda run, *a, **k: (seen.append((a, k)), log(run, *a, **k))[1])
    trackio.init(project="p", embed=False)
    net, optimizer = make_training()
    monitor = start(net, optimizer, callback=lambda numbers, step: trackio.log(numbers, step=step))
    train(net, optimizer, steps=2)
    monitor.close()
    trackio.finish()
    record = Record(tmp_path / "run")["gradient.norm/fc1.weight"]
    logged = {one["step"]: one["metrics"]["gradient.norm/fc1.weight"] for _, one in seen}
    assert logged == record
    assert (tmp_path / "trackio" / "p.db").exists()


# ---- disks and processes


def test_a_full_disk_and_a_folder_that_is_gone_do_not_end_the_training(
    start: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain, of_plain = make_training()
    losses = train(plain, of_plain, steps=20)
    net, optimizer = make_training()
    monitor = start(net, optimizer, sinks=["store", "csv"], rules=[LIMIT])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def after(step: int) -> None:
        if step == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
        if step == 10:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    try:
        assert train(net, optimizer, steps=20, after=after) == losses
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    monitor.close()
    assert Record(tmp_path / "run").steps == list(range(20))  # what had no room waited
    steps = steps_of_csv(tmp_path / "run" / "monitor.csv")
    assert {0, 1, 2, 3, 19} <= set(steps)
    for line in (tmp_path / "run" / "alarms.jsonl").read_text().splitlines():
        assert json.loads(line)["rule"] == "mine"
    net, optimizer = make_training()
    monitor = start(net, optimizer, sinks=["store", "csv"], rules=[LIMIT])

    def remove(step: int) -> None:
        if step == 2:
            monitor._monitor._session.flush()
            shutil.rmtree(tmp_path / "run")

    assert train(net, optimizer, steps=20, after=remove) == losses
    monitor.close()
    assert Record(tmp_path / "run").steps == list(range(3, 20))  # behind the removal it begins anew
    assert len(Record(tmp_path / "run")["gradient.norm/fc1.weight"]) == 17
    assert caplog.text.count("was removed: the record begins anew") == 1


def steps_of_csv(path: Path) -> list[int]:
    """Those of the gradient's norm; every row has to be whole."""
    header, *rows = (line.split(",") for line in path.read_text().splitlines())
    assert header == ["step", "series", "value"]
    assert all(len(row) == 3 and math.isfinite(float(row[2])) for row in rows)
    return [int(step) for step, series, _ in rows if series == "gradient.norm"]


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
import msprobe
import training_sample
from training_sample import make_training, train
net, optimizer = make_training()
monitor = msprobe.monitor(net, optimizer, "run", sinks=["store", "csv"])
def after(step):
    if step == 30:
        monitor._monitor._session.flush()
    if step == 60:
        os.kill(os.getpid(), signal.SIGKILL)
train(net, optimizer, steps=100, after=after)
"""


def test_a_killed_process_leaves_whole_steps_and_goes_on_without_a_gap(tmp_path: Path, start: Any) -> None:
    script = KILLED.format(here=os.path.dirname(training_sample.__file__))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    record = Record(tmp_path / "run")
    last = record.steps[-1]
    assert record.steps == list(range(last + 1))
    assert last >= 30
    assert all(len(record[key]) == last + 1 for key in record.keys("gradient.norm"))
    net, optimizer = make_training()
    train(net, optimizer, steps=25)  # from a checkpoint of step 25
    monitor = start(net, optimizer, sinks=["store", "csv"])
    train(net, optimizer, steps=10)
    monitor.close()
    assert Record(tmp_path / "run").steps == list(range(35))
    assert steps_of_csv(tmp_path / "run" / "monitor.csv") == list(range(35))


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    import time

    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
