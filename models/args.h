// A model's arguments, as a job file gives them: texts by name.
//
//   ArgReader reader("mlp", args);
//   std::vector<int64_t> hidden = reader.Sizes("hidden", "512,512");
//   double dropout = reader.Ratio("dropout");
//   WEFT_RETURN_IF_ERROR(reader.Done());
//
// A value of the wrong form gives a usable one, and Done() says the first
// error; it also refuses arguments that nobody asked for, with "did you mean".
// All errors are kBadValue.
//
// Threading: thread-compatible. Ownership: borrows name and arguments.
#ifndef WEFT_MODELS_ARGS_H_
#define WEFT_MODELS_ARGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "models/model.h"

namespace weft::models {

inline constexpr int64_t kMaxSize = 1 << 24;
// Layers of a kind: beyond, plans take longer than 10 seconds to make.
inline constexpr int64_t kMaxLayers = 1024;

class ArgReader {
 public:
  ArgReader(absl::string_view model, const ModelArgs& args)
      : model_(model), args_(args) {}

  // One or more sizes of at least 1: "512,512".
  std::vector<int64_t> Sizes(const std::string& key, std::string fallback);
  // One number in [least, most].
  int64_t Count(const std::string& key, int64_t fallback, int64_t least = 1,
                int64_t most = kMaxSize);
  // The number of classes: the data's, unless the job says another.
  int64_t Classes(const ModelInput& input);
  // In [0, 1); 0 where it is not given.
  double Ratio(const std::string& key);
  // "0" or "1".
  bool Flag(const std::string& key, bool fallback = false);

  absl::Status Done() const;

 private:
  std::string Text(const std::string& key, std::string fallback);
  void Fail(absl::string_view key, absl::string_view text,
            absl::string_view expected);

  absl::string_view model_;
  const ModelArgs& args_;
  std::vector<std::string> known_;
  absl::Status status_;
};

}  // namespace weft::models

#endif  // WEFT_MODELS_ARGS_H_
