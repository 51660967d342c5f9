#include "devices/testing/attributes.h"

namespace weft {

void SetAttribute(const std::string& name, const Attr& attr, OpDesc* desc) {
  switch (attr.kind()) {
    case AttrKind::kInt:
      desc->Set(name, attr.i());
      break;
    case AttrKind::kFloat:
      desc->Set(name, attr.f());
      break;
    case AttrKind::kString:
      desc->Set(name, attr.s());
      break;
    case AttrKind::kInts:
      desc->Set(name, attr.ints());
      break;
    case AttrKind::kFloats:
      desc->Set(name, attr.floats());
      break;
    case AttrKind::kStrings:
      desc->Set(name, attr.strings());
      break;
    case AttrKind::kDType:
      desc->SetDType(name, static_cast<uint32_t>(attr.dtype()));
      break;
    case AttrKind::kTensor:
      break;
  }
}

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

}  // namespace weft
