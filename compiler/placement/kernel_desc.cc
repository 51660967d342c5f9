#include "compiler/placement/kernel_desc.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace weft {
namespace {

template <typename List, typename Values>
void AppendAll(const Values& values, List* list) {
  for (const auto& v : values) *list->Add() = v;
}

plan::Attribute DescribeAttr(absl::string_view name, const Attr& attr) {
  plan::Attribute out;
  out.set_name(std::string(name));
  switch (attr.kind()) {
    case AttrKind::kInt:
      out.set_i(attr.i());
      break;
    case AttrKind::kFloat:
      out.set_f(attr.f());
      break;
    case AttrKind::kString:
      out.set_s(attr.s());
      break;
    case AttrKind::kInts:
      AppendAll(attr.ints(), out.mutable_ints()->mutable_values());
      break;
    case AttrKind::kFloats:
      AppendAll(attr.floats(), out.mutable_floats()->mutable_values());
      break;
    case AttrKind::kStrings:
      AppendAll(attr.strings(), out.mutable_strings()->mutable_values());
      break;
    case AttrKind::kDType:
      out.set_dtype(static_cast<uint32_t>(attr.dtype()));
      break;
    case AttrKind::kTensor:
      *out.mutable_tensor() = DescribeConstant(attr.tensor(), 0);
      break;
  }
  return out;
}

}  // namespace

plan::TensorDesc DescribeTensor(const TensorType& type,
                                absl::string_view value) {
  plan::TensorDesc out;
  out.set_dtype(static_cast<uint32_t>(type.dtype));
  AppendAll(type.shape.dims(), out.mutable_dims());
  out.set_value(std::string(value));
  return out;
}

plan::Constant DescribeConstant(const Literal& literal, uint32_t device) {
  plan::Constant out;
  out.set_dtype(static_cast<uint32_t>(literal.type().dtype));
  AppendAll(literal.type().shape.dims(), out.mutable_dims());
  out.set_data(std::string(literal.bytes()));
  out.set_device(device);
  return out;
}

plan::Kernel DescribeKernel(const OpView& op) {
  plan::Kernel out;
  out.set_op(static_cast<uint32_t>(op.schema().id));
  AttrMap attrs = op.attrs();
  for (const AttrSpec& spec : op.schema().attrs) {
    if (spec.has_default && attrs.Find(spec.name) == nullptr) {
      attrs.Set(spec.name, spec.default_value);
    }
  }
  for (const auto& [name, attr] : attrs) {
    *out.add_attributes() = DescribeAttr(name, attr);
  }
  for (int i = 0; i < op.num_inputs(); ++i) {
    *out.add_inputs() =
        op.has_input(i) ? DescribeTensor(op.input(i)) : plan::TensorDesc();
  }
  for (const TensorType& type : op.outputs()) {
    *out.add_outputs() = DescribeTensor(type);
  }
  return out;
}

std::string StableBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace weft
