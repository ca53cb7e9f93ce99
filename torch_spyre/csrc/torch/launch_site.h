// The lines of the user's program that launches come from, for messages and profilers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "flex/driver.h"

namespace spyre {

// An op of the user's program. Parts that are unknown are empty.
struct SourceLine {
  std::string op;
  std::string location;  // file:line
  std::string code;
  std::string module;
};

// The lines of one graph. One kernel serves many graphs.
struct GraphLines {
  std::unordered_map<std::string, SourceLine> nodes;       // by the name of the node
  std::unordered_map<std::string, std::string> fallbacks;  // by op: the file:line that calls it
};

// An op of a program: where it comes from, and how it uses index tensors.
struct ProgramOp {
  // The node of the graph that it comes from; empty if there is none, or none is known.
  std::string node;
  // The op that the user called, if there is no graph.
  std::string op;
  // The same of the op that reads elements through index tensors, which may be fused into this one.
  std::string index_node{};
  std::string index_op{};
  // For each dim of a tensor that is indexed: how many elements of the index tensor, as it is on
  // the host, lie between neighbours in each of its dims on the card.
  std::map<int64_t, std::vector<int64_t>> index_strides{};
};
// The ops of every program of a bundle.
using BundleOps = std::vector<std::vector<ProgramOp>>;

// Where a launch comes from.
struct LaunchSite {
  std::shared_ptr<const GraphLines> graph{};      // null outside of compiled graphs
  std::shared_ptr<const std::string> location{};  // file:line of the call; null if unknown
};

// The graph that the calling thread runs; null if none.
const std::shared_ptr<const GraphLines>& running_graph();

// Marks a graph as running in this thread.
class RunningGraph {
 public:
  explicit RunningGraph(std::shared_ptr<const GraphLines> graph);
  ~RunningGraph();
  RunningGraph(const RunningGraph&) = delete;
  RunningGraph& operator=(const RunningGraph&) = delete;

 private:
  std::shared_ptr<const GraphLines> outer_;
};

// Returns the lines of the ops of one program, each once.
std::vector<SourceLine> source_lines(const std::vector<ProgramOp>& ops, const LaunchSite& site);

// Returns the message for a failed program: the op, what went wrong, and the user's line.
std::string failure_message(const flex::KernelError& error, const std::vector<ProgramOp>& ops,
                            const LaunchSite& site);

}  // namespace spyre
