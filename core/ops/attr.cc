#include "core/ops/attr.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

// The shortest decimal that reads back as the same double, always recognisable
// as a float: "1.0", "0.1", "1e-05", "inf", "nan".
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text;
  for (int precision : {6, 9, 15, 16, 17}) {
    text = absl::StrFormat("%.*g", precision, value);
    if (std::strtod(text.c_str(), nullptr) == value) break;
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string StringText(absl::string_view value) {
  return absl::StrCat("\"", absl::CEscape(value), "\"");
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
