#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace weft::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxHeader = 100'000'000;

struct DTypeRow {
  DType dtype;
  absl::string_view name;
};

// Names that the format gives to element types.
constexpr DTypeRow kDTypes[] = {{DType::kF32, "F32"},   {DType::kF16, "F16"},
                                {DType::kBF16, "BF16"}, {DType::kF64, "F64"},
                                {DType::kI8, "I8"},     {DType::kU8, "U8"},
                                {DType::kI16, "I16"},   {DType::kI32, "I32"},
                                {DType::kI64, "I64"},   {DType::kBool, "BOOL"}};

absl::Status Corrupt(absl::string_view file, absl::string_view what) {
  return MakeError(ErrorCode::kCheckpointCorrupt,
                   absl::StrCat("'", file, "': ", what));
}

struct Entry {
  NamedTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Entry> ParseEntry(absl::string_view file,
                                 const std::string& name, const Json& json) {
  auto bad = [&](absl::string_view what) {
    return Corrupt(file, absl::StrCat("tensor '", name, "': ", what));
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") ||
      !json.contains("shape") || !json.contains("data_offsets")) {
    return bad("needs exactly dtype, shape and data_offsets");
  }
  Entry entry;
  entry.tensor.name = name;
  const Json& dtype = json["dtype"];
  if (!dtype.is_string()) return bad("dtype is not a string");
  for (const DTypeRow& row : kDTypes) {
    if (dtype.get_ref<const std::string&>() == row.name) {
      entry.tensor.type.dtype = row.dtype;
    }
  }
  if (entry.tensor.type.dtype == DType::kInvalid) {
    return bad(absl::StrCat("unknown dtype ", dtype.dump()));
  }
  std::vector<int64_t> dims;
  if (!json["shape"].is_array()) return bad("shape is not a list");
  for (const Json& d : json["shape"]) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > (uint64_t{1} << 62)) {
      return bad("shape has an extent that is not a count");
    }
    dims.push_back(static_cast<int64_t>(d.get<uint64_t>()));
  }
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) return bad(shape.status().message());
  entry.tensor.type.shape = *std::move(shape);
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return bad("data_offsets are not two counts");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.end < entry.begin ||
      entry.end - entry.begin !=
          static_cast<uint64_t>(entry.tensor.type.num_bytes())) {
    return bad(absl::StrCat("bytes ", entry.begin, " to ", entry.end,
                            " do not hold ", entry.tensor.type.ToString()));
  }
  return entry;
}

absl::Status ParseMetadata(absl::string_view file, const Json& json,
                           std::map<std::string, std::string>* out) {
  if (!json.is_object()) return Corrupt(file, "__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return Corrupt(file,
                     absl::StrCat("__metadata__ '", key, "' is not a string"));
    }
    (*out)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

std::string SafetensorsHeader(absl::Span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& meta) {
  Json json = Json::object();
  if (!meta.empty()) json["__metadata__"] = meta;
  uint64_t offset = 0;
  for (const NamedTensor& t : tensors) {
    absl::string_view dtype;
    for (const DTypeRow& row : kDTypes) {
      if (row.dtype == t.type.dtype) dtype = row.name;
    }
    json[t.name] = {{"dtype", std::string(dtype)},
                    {"shape", std::vector<int64_t>(t.type.shape.dims().begin(),
                                                   t.type.shape.dims().end())},
                    {"data_offsets", {offset, offset + t.bytes.size()}}};
    offset += t.bytes.size();
  }
  // Names are the user's: bytes that are not UTF-8 are replaced, not thrown on.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i));
  }
  return out + text;
}

absl::StatusOr<SafetensorsFile> ParseSafetensors(absl::string_view name,
                                                 absl::string_view bytes) {
  if (bytes.size() < 8) return Corrupt(name, "shorter than its header length");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<uint8_t>(bytes[i]);
  }
  if (length > kMaxHeader || length > bytes.size() - 8) {
    return Corrupt(name, absl::StrCat("header of ", length,
                                      " bytes does not fit in the file"));
  }
  absl::string_view text = bytes.substr(8, length);
  absl::string_view buffer = bytes.substr(8 + length);
  if (text.empty() || text[0] != '{') {
    return Corrupt(name, "header does not start with '{'");
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (!json.is_object()) return Corrupt(name, "header is not a JSON object");
  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& [key, value] : json.items()) {
    if (key == "__metadata__") {
      WEFT_RETURN_IF_ERROR(ParseMetadata(name, value, &file.metadata));
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, key, value));
    entries.push_back(std::move(entry));
  }
  std::stable_sort(
      entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
  uint64_t at = 0;
  for (Entry& entry : entries) {
    if (entry.begin != at || entry.end > buffer.size()) {
      return Corrupt(name, absl::StrCat("tensor '", entry.tensor.name,
                                        "' lies at ", entry.begin, " to ",
                                        entry.end, ", expected to start at ",
                                        at, " and end within ", buffer.size()));
    }
    entry.tensor.bytes = buffer.substr(entry.begin, entry.end - entry.begin);
    at = entry.end;
    file.tensors.push_back(std::move(entry.tensor));
  }
  if (at != buffer.size()) {
    return Corrupt(
        name, absl::StrCat(buffer.size() - at, " bytes after the last tensor"));
  }
  return file;
}

}  // namespace weft::checkpoint
