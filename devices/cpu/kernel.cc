#include "devices/cpu/kernel.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace weft_cpu {
namespace {

int64_t ElementSize(uint32_t dtype) {
  return static_cast<int64_t>(weft_sdk::SizeOf(dtype));
}

// Copies and checks one operand. False after recording a failure.
bool ReadTensor(const weft_sdk::Tensor& from, const char* side, int index,
                Tensor* to, Failure* failure) {
  to->dtype = from.dtype();
  if (!from.present()) return true;
  if (ElementSize(to->dtype) == 0) {
    failure->Set(WEFT_UNSUPPORTED, "%s %d: dtype %u", side, index, to->dtype);
    return false;
  }
  to->rank = from.rank();
  int64_t count = 1;
  for (int i = 0; i < to->rank; ++i) {
    to->dims[i] = from.dim(i);
    to->strides[i] = from.stride(i);
    if (__builtin_mul_overflow(count, to->dims[i], &count)) {
      failure->Set(WEFT_INVALID, "%s %d: too many elements", side, index);
      return false;
    }
    if (to->strides[i] < 0) {
      failure->Set(WEFT_UNSUPPORTED, "%s %d: negative stride", side, index);
      return false;
    }
  }
  to->count = count;
  int64_t expect = 1, last = 0;
  bool overflow = false;
  for (int i = to->rank - 1; i >= 0 && count > 0; --i) {
    int64_t reach = 0;
    if (to->dims[i] != 1 && to->strides[i] != expect) to->dense = false;
    overflow |= __builtin_mul_overflow(to->dims[i] - 1, to->strides[i], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    expect *= to->dims[i];
  }
  overflow |= __builtin_mul_overflow(to->dense ? count : last + 1,
                                     ElementSize(to->dtype), &to->extent);
  if (overflow) {
    failure->Set(WEFT_INVALID, "%s %d: too large", side, index);
    return false;
  }
  if (count == 0) to->extent = 0;
  return true;
}

}  // namespace

weft_code Failure::Set(weft_code new_code, const char* format, ...) {
  if (code != WEFT_OK) return code;
  code = new_code;
  va_list list;
  va_start(list, format);
  std::vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return code;
}

bool Tensor::SameDims(const Tensor& other) const {
  if (rank != other.rank) return false;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] != other.dims[i]) return false;
  }
  return true;
}

Op::Op(const weft_sdk::Op& desc, Failure* failure)
    : id(desc.id()), desc_(desc), failure_(failure) {
  in.resize(desc.num_in());
  out.resize(desc.num_out());
  for (int i = 0; i < desc.num_in(); ++i) {
    if (!ReadTensor(desc.in(i), "input", i, &in[i], failure)) return;
  }
  for (int i = 0; i < desc.num_out(); ++i) {
    if (!ReadTensor(desc.out(i), "output", i, &out[i], failure)) return;
  }
}

void Op::AssumeDense() {
  for (std::vector<Tensor>* list : {&in, &out}) {
    for (Tensor& t : *list) {
      int64_t stride = 1;
      for (int i = t.rank - 1; i >= 0; --i) {
        t.strides[i] = stride;
        stride *= t.dims[i];
      }
      t.dense = true;
    }
  }
}

bool Op::Arity(size_t min_in, size_t max_in, size_t min_out,
               size_t max_out) const {
  bool right = in.size() >= min_in && in.size() <= max_in &&
               out.size() >= min_out && out.size() <= max_out;
  for (size_t i = 0; right && i < min_in; ++i) right = in[i].present();
  for (size_t i = 0; right && i < min_out; ++i) right = out[i].present();
  if (!right) {
    failure_->Set(WEFT_INVALID,
                  "op %u: %zu operands and %zu results do not fit", id,
                  in.size(), out.size());
  }
  return right && ok();
}

bool Op::Check(bool condition, const char* what) const {
  if (!condition) Invalid(what);
  return ok();
}

int Op::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    failure_->Set(WEFT_INVALID, "axis %lld outside of rank %d",
                  static_cast<long long>(axis), rank);
    return -1;
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::unique_ptr<Kernel> Op::Invalid(const char* what) const {
  failure_->Set(WEFT_INVALID, "op %u: %s", id, what);
  return nullptr;
}

std::unique_ptr<Kernel> Op::Unsupported(const char* what) const {
  failure_->Set(WEFT_UNSUPPORTED, "op %u: %s", id, what);
  return nullptr;
}

uint32_t InPlaceMask(const Op& op) {
  uint32_t mask = 0;
  for (size_t i = 0; i < op.in.size() && i < 32; ++i) {
    const Tensor& t = op.in[i];
    if (t.present() && t.dense && t.dtype == op.out[0].dtype &&
        t.SameDims(op.out[0])) {
      mask |= 1u << i;
    }
  }
  return mask;
}

const KernelEntry* KernelTable::Find(uint32_t op) const {
  const KernelEntry* row = std::lower_bound(
      first, last, op,
      [](const KernelEntry& entry, uint32_t id) { return entry.op < id; });
  return row != last && row->op == op ? row : nullptr;
}

}  // namespace weft_cpu
