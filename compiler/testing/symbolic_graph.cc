// SymbolicRun, the half of the graph: what every sink must see.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "compiler/testing/symbolic_run.h"
#include "compiler/testing/symbols.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

class Evaluator {
 public:
  Evaluator(const Graph &graph, int micro_batches)
      : graph_(graph), micro_batches_(micro_batches) {}

  absl::StatusOr<Symbols> Run(int periods) {
    WEFT_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    for (const Node *node : order_) {
      if (node->Is(OpId::kVariable))
        state_[node->id()] = StateSymbol(node->name());
    }
    for (int p = 0; p < periods; ++p) Period(p);
    for (auto [node, symbol] : state_) {
      if (graph_.Uses({node, 0}).empty()) continue;
      out_[absl::StrCat("state/", graph_.node(node)->name())] = {symbol};
    }
    return std::move(out_);
  }

 private:
  bool IsMicro(const Node &node) const {
    return rates_[node.id()] == Rate::kMicro || node.Is(OpId::kAccumulate) ||
           micro_batches_ == 1;
  }

  void Period(int period) {
    values_.clear();
    sums_.clear();
    std::map<int32_t, uint64_t> next = state_;
    for (const Node *node : order_) {
      if (!IsMicro(*node)) Act(*node, period, 0, &next);
      if (node->Is(OpId::kAccumulate)) {
        for (int k = 0; k < micro_batches_; ++k) Act(*node, period, k, &next);
      } else if (IsMicro(*node)) {
        for (int k = 0; k < micro_batches_; ++k) Act(*node, period, k, &next);
      }
    }
    state_ = std::move(next);
  }

  uint64_t Get(Value v, int micro) const {
    const std::vector<uint64_t> &all = values_.at(v);
    return all[all.size() == 1 ? 0 : micro];
  }

  void Act(const Node &node, int period, int micro,
           std::map<int32_t, uint64_t> *next) {
    std::vector<uint64_t> operands;
    for (Value v : node.inputs()) operands.push_back(Get(v, micro));
    auto put = [&](int i, uint64_t symbol) {
      values_[node.output(i)].push_back(symbol);
    };
    switch (node.schema().id) {
      case OpId::kVariable:
        return put(0, state_.at(node.id()));
      case OpId::kConstant:
        return put(0, StableHash(node.attrs().Find("value")->tensor().bytes()));
      case OpId::kIdentity:
        return put(0, operands[0]);
      case OpId::kDataSource:
      case OpId::kCounter:
        for (int i = 0; i < node.num_outputs(); ++i) {
          put(i, SourceSymbol(
                     i == 0 ? node.name() : absl::StrCat(node.name(), ":", i),
                     period, micro));
        }
        return;
      case OpId::kAccumulate:
        sums_[node.id()] = Combine(sums_[node.id()], operands[0]);
        if (micro + 1 == micro_batches_) put(0, sums_[node.id()]);
        return;
      case OpId::kOutput:
        out_[node.attrs().Find("name")->s()].push_back(operands[0]);
        return;
      default:
        break;
    }
    const std::vector<uint64_t> symbols = OpSymbols(
        DescribeKernel(graph_.View(node)), operands, node.num_outputs());
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (i < node.num_updated()) {
        (*next)[node.input(i).node] = symbols[i];
      } else {
        put(i, symbols[i]);
      }
    }
  }

  const Graph &graph_;
  const int micro_batches_;
  std::vector<const Node *> order_;
  std::vector<Rate> rates_;
  std::map<int32_t, uint64_t> state_;
  std::map<int32_t, uint64_t> sums_;
  std::map<Value, std::vector<uint64_t>> values_;
  Symbols out_;
};

}  // namespace

absl::StatusOr<Symbols> EvaluateGraph(const Graph &graph, int micro_batches,
                                      int periods) {
  return Evaluator(graph, micro_batches).Run(periods);
}

}  // namespace weft
