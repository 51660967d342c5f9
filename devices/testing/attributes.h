// Types and attributes of core as the plugin ABI wants them, for tests that run
// one op on a device and its reference beside it:
//
//   OpDesc desc(op);
//   for (const auto& [name, attr] : attrs) SetAttribute(name, attr, &desc);
//
// Threading: free functions. Test only.
#ifndef WEFT_DEVICES_TESTING_ATTRIBUTES_H_
#define WEFT_DEVICES_TESTING_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/ops/attr.h"
#include "core/types/shape.h"
#include "plugins/host/op_desc.h"

namespace weft {

// A tensor is left out: it is no part of an op's description.
void SetAttribute(const std::string& name, const Attr& attr, OpDesc* desc);

// As OpDesc takes them.
std::vector<int64_t> DimsOf(const Shape& shape);

}  // namespace weft

#endif  // WEFT_DEVICES_TESTING_ATTRIBUTES_H_
