#include "plugins/host/op_desc.h"

#include <utility>

#include "glog/logging.h"

namespace weft {
namespace {

weft_tensor MakeTensor(uint32_t dtype, const std::vector<int64_t>& dims,
                       const std::vector<int64_t>& strides, uint32_t flags) {
  CHECK_LE(dims.size(), WEFT_MAX_RANK);
  CHECK(strides.empty() || strides.size() == dims.size());
  weft_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = dtype;
  t.rank = static_cast<uint32_t>(dims.size());
  t.flags = flags;
  uint64_t dense = 1;  // wraps around: refusing such dims is the plugin's part
  for (size_t i = dims.size(); i-- > 0;) {
    t.dims[i] = dims[i];
    t.strides[i] = strides.empty() ? static_cast<int64_t>(dense) : strides[i];
    dense *= static_cast<uint64_t>(dims[i]);
  }
  return t;
}

weft_string Str(const std::string& s) { return {s.data(), s.size()}; }

}  // namespace

OpDesc::OpDesc(uint32_t op, uint32_t version) {
  desc_.struct_size = sizeof(desc_);
  desc_.op = op;
  desc_.version = version;
}

OpDesc& OpDesc::In(uint32_t dtype, const std::vector<int64_t>& dims,
                   const std::vector<int64_t>& strides, uint32_t flags) {
  inputs_.push_back(MakeTensor(dtype, dims, strides, flags));
  return *this;
}

OpDesc& OpDesc::Out(uint32_t dtype, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& strides) {
  outputs_.push_back(MakeTensor(dtype, dims, strides, 0));
  return *this;
}

OpDesc& OpDesc::NoIn() { return In(0, {}); }

weft_attr& OpDesc::NewAttr(absl::string_view name, uint32_t kind) {
  text_.emplace_back(name);
  weft_attr attr{};
  attr.struct_size = sizeof(attr);
  attr.kind = kind;
  attr.name = Str(text_.back());
  attrs_.push_back(attr);
  return attrs_.back();
}

OpDesc& OpDesc::Set(absl::string_view name, int64_t value) {
  NewAttr(name, WEFT_ATTR_INT).i = value;
  return *this;
}

OpDesc& OpDesc::Set(absl::string_view name, double value) {
  NewAttr(name, WEFT_ATTR_FLOAT).f = value;
  return *this;
}

OpDesc& OpDesc::Set(absl::string_view name, const std::string& value) {
  text_.push_back(value);
  const weft_string s = Str(text_.back());
  NewAttr(name, WEFT_ATTR_STRING).s = s;
  return *this;
}

OpDesc& OpDesc::Set(absl::string_view name, std::vector<int64_t> value) {
  ints_.push_back(std::move(value));
  weft_attr& attr = NewAttr(name, WEFT_ATTR_INTS);
  attr.count = ints_.back().size();
  attr.ints = ints_.back().data();
  return *this;
}

OpDesc& OpDesc::Set(absl::string_view name, std::vector<double> value) {
  floats_.push_back(std::move(value));
  weft_attr& attr = NewAttr(name, WEFT_ATTR_FLOATS);
  attr.count = floats_.back().size();
  attr.floats = floats_.back().data();
  return *this;
}

OpDesc& OpDesc::Set(absl::string_view name,
                    const std::vector<std::string>& value) {
  std::vector<weft_string> list;
  for (const std::string& s : value) {
    text_.push_back(s);
    list.push_back(Str(text_.back()));
  }
  strings_.push_back(std::move(list));
  weft_attr& attr = NewAttr(name, WEFT_ATTR_STRINGS);
  attr.count = strings_.back().size();
  attr.strings = strings_.back().data();
  return *this;
}

OpDesc& OpDesc::SetDType(absl::string_view name, uint32_t dtype) {
  NewAttr(name, WEFT_ATTR_DTYPE).i = dtype;
  return *this;
}

const weft_op_desc& OpDesc::desc() {
  desc_.attr_count = attrs_.size();
  desc_.attrs = attrs_.data();
  desc_.input_count = static_cast<uint32_t>(inputs_.size());
  desc_.output_count = static_cast<uint32_t>(outputs_.size());
  desc_.inputs = inputs_.data();
  desc_.outputs = outputs_.data();
  return desc_;
}

}  // namespace weft
