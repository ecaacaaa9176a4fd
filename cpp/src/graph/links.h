// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/graph.h"

/// Which calls of torch.distributed of several ranks exchanged data with each other (docs/formats/graph.md,
/// communication links). Calls are found by numbers: the n-th that one rank sends to another belongs to the
/// n-th that the other receives from it. What that needs of a rank is small and does not refer to its graph,
/// so the graphs of all ranks need not be in memory at once.
namespace msprobe::graph {

/// What tells calls apart that are numbered on their own.
struct Channel {
  std::string function;   // "all_reduce"; of an operation of batch_isend_irecv "isend" or "irecv"
  std::string group;      // its id; empty for calls between two ranks
  int peer = -1;          // the other rank; -1: all of the group
  bool in_batch = false;  // operations of batch_isend_irecv

  auto operator<=>(const Channel&) const = default;
};

/// The calls of one rank that have a number.
struct CommunicationCalls {
  struct Call {
    std::uint32_t node = 0;       // in `nodes`
    std::uint32_t operation = 0;  // among those of its node
    std::uint32_t group = 0;      // in `groups`; of calls of a whole group
    int root = -1;                // the one source or destination; -1: none, or unknown
    std::string result;           // what is recorded of the first result, if that must agree
  };
  struct Node {
    NodeId id = kNoNode;
    std::string name;
    std::uint32_t operations = 1;
  };

  int rank = 0;
  std::vector<Node> nodes;  // in the order of the graph
  std::vector<std::vector<int>> groups;
  std::map<Channel, std::vector<Call>> channels;  // in the order of numbers, the first is 1
};

/// Calls without a number: of a whole group that is not named with the keyword `group`, and between two ranks
/// without the keyword `dst` or `src`. Reads the operations of batch_isend_irecv from the file of the dump.
/// Throws IoError, and FormatError when that file is another one now.
CommunicationCalls read_calls(const Graph& graph);

enum class ExchangeDirection : std::uint8_t { kSend, kReceive, kSendReceive };

/// What one node exchanged with which.
struct Link {
  struct Peer {
    int rank = 0;
    std::string_view node;  // in the CommunicationCalls of that rank
  };
  struct Exchange {
    ExchangeDirection direction = ExchangeDirection::kSend;
    std::vector<Peer> peers;
  };

  int rank = 0;
  NodeId node = kNoNode;
  /// Several for batch_isend_irecv, in the order of its operations, those without a partner left out.
  std::vector<Exchange> exchanges;
  bool is_list = false;  // the node has more than one operation
};

/// Links the calls of the ranks of one step of one run. Nodes without a partner have no link; ranks that are
/// not there are nobody's partner. The order is that of `ranks` and of their nodes. Views refer to `ranks`.
std::vector<Link> link_calls(std::span<const CommunicationCalls> ranks);

/// What is shown of the node of a rank.
using NodeText = std::function<std::string(int rank, std::string_view node)>;

/// The column matched_distributed: {"communications_type": "send", "nodes_info": {"1": [text, name]}}, or a
/// list of those. Of a node without a link the column is "{}".
std::string matched_distributed_json(const Link& link, const NodeText& text);

/// The text of a precision index as mindstudio-probe prints numbers of Python: "0", "1" for whole numbers,
/// "0.0", "1.0", "0.28782738345916425" for others.
std::string index_text(double index, bool is_integer);

}  // namespace msprobe::graph
