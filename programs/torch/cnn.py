"""A small convolutional network by PyTorch: training steps, or inference, on random input.

Prints one JSON object on standard output; package torch, beside this file, says what its
fields are. Steps are timed by CUDA's events. Ends with 3 where PyTorch or a device is
missing, and with 1 where the loss does not fall, each with one line on standard error.
"""

import argparse
import json
import math
import sys
import time


def fail(status, line):
    print("cnn.py: " + line, file=sys.stderr)
    sys.exit(status)


def arguments():
    parser = argparse.ArgumentParser(description="training steps or inference of a small convolutional network")
    parser.add_argument("--task", choices=["training", "inference"], default="training")
    parser.add_argument("--steps", type=int, default=100, help="timed steps, 1 to 100000")
    parser.add_argument("--warmup", type=int, default=10, help="steps before them that count for nothing, 0 to 1000")
    parser.add_argument("--batch", type=int, default=256, help="images a step, 1 to 65536")
    parser.add_argument("--seed", type=int, default=1, help="of input and weights, 0 to 2^53-1")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu is for tests: its times mean nothing here")
    a = parser.parse_args()
    for name, value, least, most in (
        ("steps", a.steps, 1, 100000),
        ("warmup", a.warmup, 0, 1000),
        ("batch", a.batch, 1, 65536),
        ("seed", a.seed, 0, 2**53 - 1),
    ):
        if not least <= value <= most:
            fail(2, f"--{name} {value}: want {least} to {most}")
    return a


def network(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 10),
    )


class Events:
    """The time between two moments of a stream; on the CPU, of the clock."""

    def __init__(self, torch, device):
        self.torch, self.cuda = torch, device == "cuda"

    def mark(self):
        if not self.cuda:
            return time.monotonic()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, a, b):
        return a.elapsed_time(b) / 1e3 if self.cuda else b - a

    def wait(self):
        if self.cuda:
            self.torch.cuda.synchronize()


def main():
    began = time.monotonic()
    a = arguments()
    try:
        import torch
    except ImportError as missing:
        fail(3, f"PyTorch is not installed for {sys.executable} ({missing}): install it there, or leave PyTorch out")
    imported = time.monotonic()
    if a.device == "cuda" and not torch.cuda.is_available():
        fail(3, f"PyTorch {torch.__version__} sees no CUDA device: install a build for CUDA, or give the program a device")
    torch.manual_seed(a.seed)
    model = network(torch).to(a.device)
    # Random images, and a label that can be told from them: which of ten brightnesses.
    label = torch.randint(0, 10, (a.batch,))
    images = torch.rand(a.batch, 3, 32, 32) * 0.1 + label.view(-1, 1, 1, 1) / 10.0
    images, label = images.to(a.device), label.to(a.device)
    events = Events(torch, a.device)
    events.wait()
    started = time.monotonic()
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(images), label)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def infer():
        with torch.no_grad():
            return loss_of(model(images), label)

    step = train if a.task == "training" else infer
    for _ in range(a.warmup):
        losses.append(step())
    events.wait()
    warm = time.monotonic()
    marks = [events.mark()]
    for _ in range(a.steps):
        losses.append(step())
        marks.append(events.mark())
    events.wait()
    iterated = time.monotonic()
    first, last = float(losses[0]), float(losses[-1])
    if not (math.isfinite(first) and math.isfinite(last)):
        fail(1, f"the loss went from {first} to {last}: no figure of this run holds")
    if a.task == "training" and a.warmup + a.steps >= 20 and last >= first:
        fail(1, f"the loss did not fall in {a.warmup + a.steps} steps ({first} to {last}): no figure of this run holds")
    print(json.dumps({
        "schema": 1,
        "task": a.task,
        "steps": a.steps,
        "warmup": a.warmup,
        "batch": a.batch,
        "seed": a.seed,
        "device": torch.cuda.get_device_name() if a.device == "cuda" else "cpu",
        "version": torch.__version__,
        "cuda": torch.version.cuda or "",
        "seconds": {
            "import": imported - began,
            "start": started - imported,
            "warmup": warm - started,
            "iterate": iterated - warm,
            "steps": [events.seconds(x, y) for x, y in zip(marks, marks[1:])],
        },
        "first_loss": first,
        "last_loss": last,
    }))


if __name__ == "__main__":
    main()
