#include "runtime/data/samples.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::data {
namespace {

OrderOptions ToOrder(const Samples& data, const ReaderOptions& options) {
  OrderOptions order;
  order.samples = data.size();
  order.batch = options.batch;
  order.seed = options.seed;
  order.shuffle = options.shuffle && options.training;
  order.tail = options.training ? options.tail : Tail::kCarry;
  return order;
}

}  // namespace

absl::Status CheckBatch(const Samples& data, int64_t batch,
                        const std::string& name) {
  if (batch <= data.size()) return absl::OkStatus();
  return MakeError(ErrorCode::kBatchTooLarge,
                   absl::StrCat("batch_size ", batch, " is larger than the ",
                                data.size(), " samples of '", name, "'"));
}

BatchReader::BatchReader(const Samples* data, const ReaderOptions& options)
    : data_(data),
      field_bytes_(data->FieldBytes()),
      options_(options),
      order_(ToOrder(*data, options)) {}

absl::Status BatchReader::Fill(uint64_t step, uint32_t micro,
                               absl::Span<const runtime::HostTensor> out) {
  const int64_t count = options_.batch / options_.micro_batches;
  bool fits = out.size() == field_bytes_.size();
  for (size_t f = 0; fits && f < out.size(); ++f) {
    fits = out[f].bytes == count * field_bytes_[f];
  }
  if (!fits) {
    return absl::InternalError("the plan's batch differs from the reader's");
  }
  std::vector<char*> places(out.size());
  const int64_t first = static_cast<int64_t>(step) * options_.batch +
                        (options_.first_micro_batch + micro) * count;
  for (int64_t i = 0; i < count; ++i) {
    for (size_t f = 0; f < out.size(); ++f) {
      places[f] = static_cast<char*>(out[f].data) + i * field_bytes_[f];
    }
    if (options_.training || first + i < data_->size()) {
      data_->Write(order_.At(first + i), places);
      continue;
    }
    for (size_t f = 0; f < out.size(); ++f) {
      std::memset(places[f], 0, field_bytes_[f]);
    }
  }
  return absl::OkStatus();
}

int64_t BatchReader::StepsOf(int64_t epochs) const {
  return order_.StepsOf(epochs);
}

}  // namespace weft::data
