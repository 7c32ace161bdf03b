# SPDX-License-Identifier: Apache-2.0
"""The nets whose module trees lie here, each written with
   models/write_modules.py nets.py:NET [options] > NET.json   (see README.md)."""
import torch
import torch.nn.functional as F
from torch import nn


def pytorch_transformer():
    """The net of PyTorch's own test of FSDP2's memory (test_fully_shard_memory.py)."""
    from torch.testing._internal.distributed._tensor.common_dtensor import ModelArgs, Transformer
    return Transformer(ModelArgs(vocab_size=32, n_layers=3, dim=768, n_heads=12,
                                 weight_tying=False))


class Gated(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        gate = F.silu(self.w1(x))
        return self.w2(gate * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.scale = nn.Parameter(torch.empty(dim))
        self.gated = Gated(dim, hidden)

    def forward(self, x):
        h = self.gated(self.norm(x)) * self.scale
        h = x + h
        return h


class Stacked(nn.Module):
    """Named variables, unnamed values, a variable bound anew, a tied head, a list of blocks."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(200, 48)
        self.layers = nn.ModuleList(Block(48, 101) for _ in range(3))
        self.head = nn.Linear(48, 200, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def stacked():
    return Stacked()


class Stage(nn.Module):
    """Convolutions, which the simulator does not know."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))) + x


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(Stage(16) for _ in range(2))
        self.head = nn.Linear(16 * 8 * 8, 10)

    def forward(self, image):
        x = self.stages[1](self.stages[0](image))
        return self.head(x.flatten(1))


def vision():
    return Vision()
