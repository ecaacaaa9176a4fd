# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PyG: a graph network of two kinds of layers."""

import row
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool


class Graphs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(8, 32), GATConv(32, 16, heads=2)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 3)

    def forward(self, data):
        x = self.first(data.x, data.edge_index).relu()
        x = self.norm(self.second(x, data.edge_index))
        x = nn.functional.dropout(x, row.chosen("dropout", 0.1), self.training)
        return self.head(global_mean_pool(x, data.batch))


torch.manual_seed(0)
graphs = []
for _ in range(32):
    nodes = int(torch.randint(5, 9, ()))
    edges = torch.randint(0, nodes, (2, 3 * nodes))
    graphs.append(Data(torch.randn(nodes, 8), edges, y=torch.randint(0, 3, (1,))))
model = Graphs()
row.plant(model)
optimizer = torch.optim.Adam(model.parameters(), lr=row.chosen("lr", 0.01), foreach=row.other_kernel())
losses = []
for batch in DataLoader(graphs, batch_size=row.chosen("batch_size", 4), shuffle=True):
    loss = nn.functional.cross_entropy(model(batch), batch.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
row.report(model, losses)
