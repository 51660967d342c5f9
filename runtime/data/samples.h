// A data set in memory, as samples of one size, and the reader that gives them
// to a plan batch by batch.
//
//   BatchReader reader(&data, {.batch = 128, ...});
//   bindings.sources["train"] = &reader;
//
// A sample has some fields (image, label, weight), each of a fixed number of
// bytes; a field of a batch is that of its samples, one after the other. In
// evaluation the batch after the last sample is padded with zero bytes, which
// make weights of 0: sums over batches count each sample once.
//
// Threading: a Samples is immutable; a BatchReader is called by one thread at a
// time, as SourceReader says. Ownership: the reader borrows the data.
#ifndef WEFT_RUNTIME_DATA_SAMPLES_H_
#define WEFT_RUNTIME_DATA_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/data/sample_order.h"
#include "runtime/execute/bindings.h"

namespace weft::data {

class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t size() const = 0;
  // Of one sample, by field.
  virtual std::vector<uint64_t> FieldBytes() const = 0;
  // Writes a sample; `out` has the place of each field.
  virtual void Write(int64_t sample, absl::Span<char* const> out) const = 0;
  // kLabelRange where a model of `classes` classes cannot take the data: the
  // first label that is not below; `path` is the file of the labels.
  virtual absl::Status CheckClasses(int64_t classes,
                                    const std::string& path) const = 0;
};

struct ReaderOptions {
  int64_t batch = 1;  // of a step, all micro-batches of all ranks
  int64_t micro_batches = 1;
  int64_t first_micro_batch = 0;  // that this rank's count from
  bool training = true;           // false: in order, once, padded
  uint64_t seed = 0;
  bool shuffle = true;
  Tail tail = Tail::kCarry;
};

class BatchReader : public runtime::SourceReader {
 public:
  // Pre-condition: options fit the data (CheckBatch).
  BatchReader(const Samples* data, const ReaderOptions& options);

  absl::Status Fill(uint64_t step, uint32_t micro,
                    absl::Span<const runtime::HostTensor> out) override;

  // Training: as SampleOrder. Evaluation: ceil(samples / batch) for 1 epoch.
  int64_t StepsOf(int64_t epochs) const;

 private:
  const Samples* data_;
  const std::vector<uint64_t> field_bytes_;
  ReaderOptions options_;
  SampleOrder order_;
};

// kBatchTooLarge where a step takes more samples than there are.
absl::Status CheckBatch(const Samples& data, int64_t batch,
                        const std::string& name);

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_SAMPLES_H_
