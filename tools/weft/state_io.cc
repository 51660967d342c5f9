#include "tools/weft/state_io.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {

class StateBuffers::Buffer : public runtime::SourceReader,
                             public runtime::SinkConsumer {
 public:
  explicit Buffer(uint64_t bytes) : bytes_(bytes, '\0') {}

  absl::string_view bytes() const { return bytes_; }
  void Set(absl::string_view bytes) {
    std::memcpy(&bytes_[0], bytes.data(), bytes_.size());
  }

  absl::Status Consume(uint64_t step, uint32_t micro,
                       absl::Span<const runtime::HostTensor> in) override {
    WEFT_RETURN_IF_ERROR(CheckSize(in));
    std::memcpy(&bytes_[0], in[0].data, bytes_.size());
    return absl::OkStatus();
  }

  absl::Status Fill(uint64_t step, uint32_t micro,
                    absl::Span<const runtime::HostTensor> out) override {
    WEFT_RETURN_IF_ERROR(CheckSize(out));
    std::memcpy(out[0].data, bytes_.data(), bytes_.size());
    return absl::OkStatus();
  }

 private:
  absl::Status CheckSize(absl::Span<const runtime::HostTensor> tensors) const {
    if (tensors.size() == 1 && tensors[0].bytes == bytes_.size()) {
      return absl::OkStatus();
    }
    return absl::InternalError("a state tensor differs from its variable");
  }

  std::string bytes_;  // never reallocated: tensors_ points into it
};

StateBuffers::StateBuffers(const Graph& program) {
  for (const Node* node : program.Nodes()) {
    if (!node->Is(OpId::kVariable)) continue;
    const TensorType& type = node->output_type(0);
    buffers_.push_back(std::make_unique<Buffer>(type.num_bytes()));
    checkpoint::StateTensor state;
    state.tensor = {node->name(), type, buffers_.back()->bytes()};
    state.optimizer = program.View(*node).String("role") == "optimizer";
    tensors_.push_back(std::move(state));
  }
}

StateBuffers::~StateBuffers() = default;

runtime::Bindings StateBuffers::SaveBindings() {
  runtime::Bindings bindings;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    bindings.sinks[absl::StrCat("save/", tensors_[i].tensor.name)] =
        buffers_[i].get();
  }
  return bindings;
}

runtime::Bindings StateBuffers::LoadBindings() {
  runtime::Bindings bindings;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    bindings.sources[absl::StrCat("load/", tensors_[i].tensor.name)] =
        buffers_[i].get();
  }
  return bindings;
}

absl::Status StateBuffers::Fill(const checkpoint::Loaded& loaded) {
  WEFT_RETURN_IF_ERROR(checkpoint::CheckFits(loaded, tensors_));
  std::map<std::string, absl::string_view> by_name;
  for (const checkpoint::NamedTensor& t : loaded.tensors) {
    by_name[t.name] = t.bytes;
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i]->Set(by_name.at(tensors_[i].tensor.name));
  }
  return absl::OkStatus();
}

}  // namespace weft
