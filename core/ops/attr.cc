#include "core/ops/attr.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

// The shortest decimal that reads back as the same bits, always recognisable as
// a float: "1.0", "0.1", "1e-05", "inf". NaNs other than the usual keep their
// bits.
std::string FloatText(double value) {
  if (std::isnan(value)) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (bits == 0x7ff8000000000000) return "nan";
    return absl::StrFormat("nan(0x%x)", bits);
  }
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string StringText(absl::string_view value) {
  return absl::StrCat("\"", absl::CHexEscape(value), "\"");
}

// "f32[2]{1.0, 2.0}".
std::string TensorText(const Literal& literal) {
  std::string body;
  auto add = [&body](const std::string& item) {
    absl::StrAppend(&body, body.empty() ? "" : ", ", item);
  };
  if (literal.type().dtype == DType::kI64) {
    for (int64_t v : literal.data<int64_t>()) add(absl::StrCat(v));
  } else {
    bool is_float = IsFloat(literal.type().dtype);
    for (double v : literal.ToDoubles()) {
      add(is_float ? FloatText(v) : absl::StrCat(static_cast<int64_t>(v)));
    }
  }
  return absl::StrCat(literal.type().ToString(), "{", body, "}");
}

template <typename Items, typename Text>
std::string ListText(const Items& items, Text text) {
  return absl::StrCat("[",
                      absl::StrJoin(items, ", ",
                                    [&](std::string* out, const auto& item) {
                                      absl::StrAppend(out, text(item));
                                    }),
                      "]");
}

}  // namespace

std::string ToString(const Attr& attr) {
  switch (attr.kind()) {
    case AttrKind::kInt:
      return absl::StrCat(attr.i());
    case AttrKind::kFloat:
      return FloatText(attr.f());
    case AttrKind::kString:
      return StringText(attr.s());
    case AttrKind::kInts:
      return ListText(attr.ints(), [](int64_t v) { return absl::StrCat(v); });
    case AttrKind::kFloats:
      return ListText(attr.floats(), FloatText);
    case AttrKind::kStrings:
      return ListText(attr.strings(),
                      [](const std::string& v) { return StringText(v); });
    case AttrKind::kDType:
      return std::string(DTypeName(attr.dtype()));
    case AttrKind::kTensor:
      return TensorText(attr.tensor());
  }
  return "";
}

}  // namespace weft
