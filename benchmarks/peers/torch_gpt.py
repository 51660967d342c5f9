#!/usr/bin/python3
"""PyTorch peer of the language model: the time of a training step.

    benchmarks/peers/torch_gpt.py --steps 24 --threads 1 [--dropout 0.1]

The recipe is that of examples/gpt_licenses.txtpb: the same layers, optimizer,
clipping and batches, the text of the same Debian package (base-files). See
torch_train.py for PyTorch itself and train.sh for its environment. Prints RESULT
lines (benchmarks/result.h): wall and CPU milliseconds a step, over chunks of 4
steps, the first left out; and the peak of resident memory.
"""
import argparse
import math
import os
import resource
import statistics
import time

import numpy
import torch
from torch import nn

LICENSES = "/usr/share/common-licenses/"
CHUNK = 4
CONTEXT = 128
BATCH = 32
WIDTH = 128
HEADS = 4
LAYERS = 4


def drop(ratio):
    return nn.Dropout(ratio) if ratio > 0 else nn.Identity()


class Attention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.drop = drop(dropout)

    def forward(self, x, hidden):
        batch, tokens, _ = x.shape
        size = WIDTH // HEADS
        qkv = self.qkv(x).view(batch, tokens, 3, HEADS, size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q / math.sqrt(size)) @ k.transpose(-2, -1) + hidden
        weights = self.drop(nn.functional.softmax(scores, -1))
        y = (weights @ v).transpose(1, 2).reshape(batch, tokens, WIDTH)
        return self.output(y)


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(dropout)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH),
                                 nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * WIDTH, WIDTH))
        self.drop = drop(dropout)

    def forward(self, x, hidden):
        x = x + self.drop(self.attention(self.norm1(x), hidden))
        return x + self.drop(self.mlp(self.norm2(x)))


class Gpt(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.drop = drop(dropout)
        self.blocks = nn.ModuleList([Block(dropout) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("hidden", torch.full(
            (CONTEXT, CONTEXT), -math.inf).triu(1))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.drop(self.embedding(tokens) + self.position)
        for block in self.blocks:
            x = block(x, self.hidden)
        x = nn.functional.linear(self.norm(x), self.embedding.weight)
        return x.flatten(0, 1)


def make_optimizer(net):
    decayed, others = [], []
    for name, parameter in net.named_parameters():
        plain = name.endswith("weight") and not any(
            part in name for part in ("norm", "embedding"))
        (decayed if plain else others).append(parameter)
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1},
         {"params": others, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.99))


def read_text():
    text = b""
    for name in sorted(os.listdir(LICENSES)):
        if not os.path.islink(LICENSES + name):
            with open(LICENSES + name, "rb") as f:
                text += f.read()
    return torch.from_numpy(numpy.frombuffer(text, numpy.uint8).copy()).long()


def loss(net, text, batch):
    """Of a batch of random places in the text."""
    first = torch.randint(len(text) - CONTEXT - 1, (batch, 1))
    window = text[first + torch.arange(CONTEXT + 1)]
    return nn.functional.cross_entropy(net(window[:, :-1]),
                                       window[:, 1:].reshape(-1))


def result(name, metric, values, unit):
    print("RESULT", "train", name, metric, *("%.4g" % v for v in (
        statistics.median(values), min(values), max(values))), len(values),
        unit, sep="\t", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.0)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    text = read_text()
    net = Gpt(args.dropout)
    optimizer = make_optimizer(net)
    wall, cpu = [], []
    for step in range(args.steps + 1):
        if step % CHUNK == 0:
            wall.append(time.monotonic())
            cpu.append(time.process_time())
        value = loss(net, text, BATCH)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    name = "torch %s gpt, dropout %g, %d threads" % (
        torch.__version__, args.dropout, args.threads)
    for metric, times in (("wall/step", wall), ("cpu/step", cpu)):
        result(name, metric, [1000 * (b - a) / CHUNK
                              for a, b in zip(times[1:], times[2:])], "ms")
    result(name, "peak of resident memory",
           [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024], "MiB")


if __name__ == "__main__":
    main()
