// Gather, its gradient, Iota, and Empty.
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"

WEFT_CPU_BEGIN
namespace {

// data seen as [outer, axis, inner]; one index for each of `indices`.
struct GatherShape {
  int64_t outer = 1;
  int64_t axis = 1;
  int64_t inner = 1;
  int64_t indices = 1;
};

// `data` is the indexed side, `picked` the one shaped by the indices.
bool ReadShape(const Op& op, const Tensor& data, const Tensor& indices,
               const Tensor& picked, GatherShape* s) {
  int axis = op.Axis(op.Int("axis", 0), data.rank);
  if (axis < 0) return false;
  bool fits = picked.rank == data.rank - 1 + indices.rank &&
              (indices.dtype == WEFT_I32 || indices.dtype == WEFT_I64) &&
              picked.dtype == data.dtype;
  for (int i = 0; fits && i < picked.rank; ++i) {
    int64_t want = i < axis                  ? data.dims[i]
                   : i < axis + indices.rank ? indices.dims[i - axis]
                                             : data.dims[i - indices.rank + 1];
    fits = picked.dims[i] == want;
  }
  if (!op.Check(fits, "data, indices and result do not fit")) return false;
  s->outer = Product(data.dims, 0, axis);
  s->axis = data.dims[axis];
  s->inner = Product(data.dims, axis + 1, data.rank);
  s->indices = indices.count;
  return true;
}

// Every index must be in [-axis, axis). Nothing is written where one is not.
template <class I>
bool CheckIndices(const Args& a, const I* indices, const GatherShape& s) {
  for (int64_t i = 0; i < s.indices; ++i) {
    if (indices[i] < -s.axis || indices[i] >= s.axis) {
      a.failure->Set(WEFT_RANGE,
                     "index %lld (at position %lld) outside of an axis of %lld",
                     static_cast<long long>(indices[i]),
                     static_cast<long long>(i), static_cast<long long>(s.axis));
      return false;
    }
  }
  return true;
}

template <class F>
std::unique_ptr<Kernel> WithIndex(uint32_t dtype, F f) {
  return dtype == WEFT_I32 ? f(Tag<int32_t>()) : f(Tag<int64_t>());
}

template <class T, class I>
std::unique_ptr<Kernel> MakeScatterAdd(const Op& op, const GatherShape& s) {
  using C = Compute<T>;
  constexpr bool kDirect = std::is_same_v<T, C>;  // no wider accumulator
  int64_t count = op.out[0].count;
  return MakeKernel(
      [s, count](const Args& a) {
        const T* dy = a.Input<T>(0);
        const I* indices = a.Input<I>(1);
        if (!CheckIndices(a, indices, s)) return;
        C* sums = kDirect ? reinterpret_cast<C*>(a.Output<T>(0))
                          : static_cast<C*>(a.workspace);
        std::fill(sums, sums + count, C(0));
        for (int64_t o = 0; o < s.outer; ++o) {
          for (int64_t i = 0; i < s.indices; ++i) {
            int64_t at = indices[i] < 0 ? indices[i] + s.axis : indices[i];
            C* to = sums + (o * s.axis + at) * s.inner;
            for (int64_t k = 0; k < s.inner; ++k)
              to[k] += static_cast<C>(dy[k]);
            dy += s.inner;
          }
        }
        if constexpr (!kDirect) {
          T* out = a.Output<T>(0);
          for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(sums[i]);
        }
      },
      0, kDirect ? 0 : static_cast<uint64_t>(count) * sizeof(C));
}

}  // namespace

std::unique_ptr<Kernel> MakeGather(const Op& op) {
  if (!op.Arity(2, 1)) return nullptr;
  GatherShape s;
  if (!ReadShape(op, op.in[0], op.in[1], op.out[0], &s)) return nullptr;
  size_t row = static_cast<size_t>(s.inner * SizeOf(op.in[0].dtype));
  return WithIndex(op.in[1].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using I = typename decltype(tag)::Storage;
    return MakeKernel([s, row](const Args& a) {
      const I* indices = a.Input<I>(1);
      if (!CheckIndices(a, indices, s) || row == 0) return;
      char* to = a.Output<char>(0);
      for (int64_t o = 0; o < s.outer; ++o) {
        for (int64_t i = 0; i < s.indices; ++i) {
          int64_t at = indices[i] < 0 ? indices[i] + s.axis : indices[i];
          std::memcpy(to, a.Input<char>(0) + (o * s.axis + at) * row, row);
          to += row;
        }
      }
    });
  });
}

std::unique_ptr<Kernel> MakeGatherGrad(const Op& op) {
  if (!op.Arity(2, 1)) return nullptr;
  GatherShape s;
  if (!ReadShape(op, op.out[0], op.in[1], op.in[0], &s)) return nullptr;
  return WithFloat(op.out[0].dtype, [&](auto type) {
    using T = typename decltype(type)::Storage;
    return WithIndex(op.in[1].dtype, [&](auto index) {
      return MakeScatterAdd<T, typename decltype(index)::Storage>(op, s);
    });
  });
}

std::unique_ptr<Kernel> MakeIota(const Op& op) {
  if (!op.Arity(0, 1)) return nullptr;
  const Tensor& out = op.out[0];
  int axis = op.Axis(op.Int("axis", 0), out.rank);
  if (axis < 0) return nullptr;
  int64_t outer = Product(out.dims, 0, axis), dim = out.dims[axis];
  int64_t inner = Product(out.dims, axis + 1, out.rank);
  return WithNumber(out.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([outer, dim, inner](const Args& a) {
      T* y = a.Output<T>(0);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < dim; ++i) {
          y = std::fill_n(y, inner, Convert<T>(i));
        }
      }
    });
  });
}

// Whoever writes there has the bytes to himself: nothing is left to do.
std::unique_ptr<Kernel> MakeEmpty(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  return MakeKernel([](const Args&) {});
}

WEFT_CPU_END
