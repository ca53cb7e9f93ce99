#include "torch/launch_site.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace spyre {

namespace {

// The most ops that a message lists.
constexpr size_t kMaxListed = 3;
// The op of KTIR that reads elements, through index tensors too.
constexpr std::string_view kLoad = "ktdp.load";

std::shared_ptr<const GraphLines>& graph_of_thread() {
  thread_local std::shared_ptr<const GraphLines> graph;
  return graph;
}

// Returns the line of an op, by its node in the graph if there is one.
SourceLine line_of(const std::string& node, const std::string& op, const LaunchSite& site) {
  if (site.graph != nullptr && !node.empty()) {
    const auto line = site.graph->nodes.find(node);
    if (line != site.graph->nodes.end()) return line->second;
  }
  const std::string& name = op.empty() ? node : op;
  std::string location = site.location == nullptr ? std::string() : *site.location;
  if (site.graph != nullptr) {
    const auto call = site.graph->fallbacks.find(op);
    if (call != site.graph->fallbacks.end()) location = call->second;
  }
  return {.op = name, .location = std::move(location), .code = {}, .module = {}};
}

SourceLine line_of(const ProgramOp& op, const LaunchSite& site) {
  return line_of(op.node, op.op, site);
}

bool reads_through_indices(const ProgramOp& op) {
  return !op.index_node.empty() || !op.index_op.empty();
}

// Returns the line of the op that reads elements through index tensors.
SourceLine index_line_of(const ProgramOp& op, const LaunchSite& site) {
  return line_of(op.index_node, op.index_op, site);
}

bool is_same(const SourceLine& a, const SourceLine& b) {
  return a.op == b.op && a.location == b.location && a.module == b.module;
}

// Returns "file:line (code) in module" as far as it is known, after a word if anything is.
std::string place(const SourceLine& line) {
  std::string text;
  if (!line.location.empty()) text += " at " + line.location;
  if (!line.code.empty()) text += " (" + line.code + ")";
  if (!line.module.empty()) text += " in " + line.module;
  return text;
}

// Returns the ops that the failed instruction may belong to, as text. `is_index` states whether it
// has read an invalid index.
std::string failed_ops(const flex::FailedInstruction& failed, bool is_index,
                       const std::vector<ProgramOp>& ops, const LaunchSite& site) {
  const bool is_op_known =
      failed.column == 0 && failed.line >= 1 && failed.line <= static_cast<int64_t>(ops.size());
  if (is_op_known) {
    const ProgramOp& op = ops[static_cast<size_t>(failed.line - 1)];
    const bool is_read = is_index && failed.op == kLoad && reads_through_indices(op);
    const SourceLine line = is_read ? index_line_of(op, site) : line_of(op, site);
    return line.op + place(line);
  }
  std::string text;
  size_t listed = 0;
  const std::vector<SourceLine> lines = source_lines(ops, site);
  for (const SourceLine& line : lines) {
    if (listed++ == kMaxListed) {
      return text + " and " + std::to_string(lines.size() - kMaxListed) + " more";
    }
    text += (text.empty() ? "" : ", ") + line.op + place(line);
  }
  return text;
}

// Returns which element of the index tensor is wrong, in the order of its memory on the host.
std::string position_of(const flex::InvalidIndex& index, const std::vector<ProgramOp>& ops,
                        int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(ops.size())) return {};
  const ProgramOp& op = ops[static_cast<size_t>(number - 1)];
  const auto strides = op.index_strides.find(index.dimension);
  if (strides == op.index_strides.end() || strides->second.size() != index.position.size()) {
    return {};
  }
  int64_t element = 0;
  for (size_t d = 0; d < index.position.size(); ++d) {
    if (index.position[d] > 0) element += index.position[d] * strides->second[d];
  }
  return ", at element " + std::to_string(element) + " of the index tensor";
}

}  // namespace

const std::shared_ptr<const GraphLines>& running_graph() { return graph_of_thread(); }

RunningGraph::RunningGraph(std::shared_ptr<const GraphLines> graph)
    : outer_(std::exchange(graph_of_thread(), std::move(graph))) {}

RunningGraph::~RunningGraph() { graph_of_thread() = std::move(outer_); }

std::vector<SourceLine> source_lines(const std::vector<ProgramOp>& ops, const LaunchSite& site) {
  std::vector<SourceLine> lines;
  const auto add = [&](SourceLine line) {
    if (line.op.empty()) return;
    const bool is_known =
        std::ranges::any_of(lines, [&](const SourceLine& known) { return is_same(known, line); });
    if (!is_known) lines.push_back(std::move(line));
  };
  for (const ProgramOp& op : ops) {
    if (reads_through_indices(op)) add(index_line_of(op, site));
    add(line_of(op, site));
  }
  return lines;
}

std::string failure_message(const flex::KernelError& error, const std::vector<ProgramOp>& ops,
                            const LaunchSite& site) {
  const flex::FailedInstruction& failed = error.instruction();
  const auto* index_error = dynamic_cast<const flex::KernelIndexError*>(&error);
  const std::string failing = failed_ops(failed, index_error != nullptr, ops, site);
  const std::string prefix = failing.empty() ? std::string() : failing + ": ";
  if (index_error == nullptr || !index_error->index()) return prefix + error.what();
  const flex::InvalidIndex& index = *index_error->index();
  return prefix + "index " + std::to_string(index.value) +
         " is out of range for a dimension of size " + std::to_string(index.size) +
         position_of(index, ops, failed.line) + " (kernel " + failed.kernel + ", core " +
         std::to_string(failed.core) + ", instruction " + std::to_string(failed.number) + ": " +
         failed.op + ")";
}

}  // namespace spyre
