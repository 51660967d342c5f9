#include "compiler/pass/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/algebraic_simplify.h"
#include "compiler/transforms/constant_folding.h"
#include "compiler/transforms/cse.h"
#include "compiler/transforms/dce.h"
#include "compiler/transforms/decompose.h"
#include "compiler/transforms/epilogues.h"
#include "compiler/transforms/fuse_elementwise.h"
#include "compiler/transforms/layout.h"
#include "compiler/transforms/mixed_precision.h"
#include "compiler/transforms/pool_first.h"
#include "compiler/transforms/set_mode.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"

namespace weft {
namespace {

struct Entry {
  const char* name;
  const char* summary;
  std::unique_ptr<Pass> (*create)();
};

constexpr Entry kPasses[] = {
    {"algebraic_simplify", "remove nodes that change nothing, bit for bit",
     CreateAlgebraicSimplifyPass},
    {"constant_folding", "compute nodes whose operands are constants",
     CreateConstantFoldingPass},
    {"cse", "merge nodes that compute the same", CreateCsePass},
    {"dce", "remove nodes that nobody needs", CreateDcePass},
    {"decompose", "replace nodes by primitives", CreateDecomposePass},
    {"epilogues", "take Relu, residuals and the loss's gradient into ops",
     CreateEpiloguesPass},
    {"fuse_elementwise", "make regions of elementwise nodes one node",
     CreateFuseElementwisePass},
    {"layout", "keep images in blocks of channels between convolutions",
     CreateLayoutPass},
    {"mixed_precision", "products in bf16 or f16, all else in f32",
     CreateMixedPrecisionPass},
    {"pool_first", "take maxima before Relu", CreatePoolFirstPass},
    {"set_mode", "training or evaluation form of Dropout, BatchNormalization",
     CreateSetModePass},
};

struct NamedPipeline {
  const char* name;
  std::vector<std::string> passes;
};

// The order of the passes. Each line says why it stands where it stands.
const std::vector<NamedPipeline>& NamedPipelines() {
  // set_mode and autodiff are not here: a training program is built from them
  // (compiler/training), before any rewrite, because gradients are taken of the
  // ops that the user wrote and random keys from the user's names.
  static const auto* pipelines = new std::vector<NamedPipeline>{
      {"default",
       {
           // First what nobody reads, so that no later pass works on it.
           "dce",
           // Before folding: x * 1 goes without computing anything.
           "algebraic_simplify",
           // After simplifying, which uncovers constants; before cse, which
           // merges equal constants.
           "constant_folding",
           // Gradients repeat what the forward pass has computed. Before
           // fusion, which would hide the repetition inside of regions.
           "cse",
           // Once more: merged and folded operands make new neutral elements
           // and chains.
           "algebraic_simplify",
           // Before fusion: a dead reader would make a value a region's result.
           "dce",
           // After all that makes or merges nodes between convolutions; before
           // fusion, whose regions no pass looks into.
           "layout",
           // After layout, so that images in blocks are asked about; before
           // fusion, which would take the same nodes.
           "epilogues",
           // Last: no other pass looks into weft.fused.
           "fuse_elementwise",
       }},
      {"none", {}},
  };
  return *pipelines;
}

}  // namespace

std::vector<PassInfo> ListPasses() {
  std::vector<PassInfo> passes;
  for (const Entry& entry : kPasses) {
    passes.push_back({entry.name, entry.summary});
  }
  return passes;
}

absl::StatusOr<std::unique_ptr<Pass>> CreatePass(absl::string_view name) {
  std::vector<std::string> known;
  for (const Entry& entry : kPasses) {
    if (name == entry.name) return entry.create();
    known.push_back(entry.name);
  }
  return MakeError(ErrorCode::kBadValue, absl::StrCat("no pass '", name, "'",
                                                      DidYouMean(name, known)));
}

absl::StatusOr<Pipeline> MakePipeline(absl::Span<const std::string> passes,
                                      PipelineOptions options) {
  Pipeline pipeline(std::move(options));
  for (const std::string& name : passes) {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Pass> pass, CreatePass(name));
    pipeline.Add(std::move(pass));
  }
  return pipeline;
}

absl::StatusOr<Pipeline> MakeNamedPipeline(absl::string_view name,
                                           PipelineOptions options) {
  std::vector<std::string> known;
  for (const NamedPipeline& pipeline : NamedPipelines()) {
    if (name == pipeline.name) {
      return MakePipeline(pipeline.passes, std::move(options));
    }
    known.push_back(pipeline.name);
  }
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat("no pipeline '", name, "'", DidYouMean(name, known)));
}

}  // namespace weft
