// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msprobe/graph.h"

/// Ranks that are joined by what their DTensors say of the mesh they lie on.
namespace msprobe::graph {

/// One dimension of a mesh of ranks.
struct MeshAxis {
  std::string name;  // as the program calls it; of one without a name its place: "[2, 2] 0"
  std::size_t size = 0;
};

/// Ranks whose DTensors share meshes.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<std::size_t> ranks;                     // by coordinates, the last axis varies fastest
  std::vector<std::vector<std::size_t>> coordinates;  // of each of them
};

/// The meshes of a job: each rank is in one, alone where it has no DTensor. Throws InvalidArgument when the
/// meshes that ranks share do not give each of them a place of its own.
std::vector<Mesh> find_meshes(const std::vector<Graph>& ranks);

/// Joins the graphs of one mesh into the first of them.
void merge_mesh(const Mesh& mesh, std::vector<Graph>& ranks);

}  // namespace msprobe::graph
