// Kernels of a plugin: typed views of what the host describes, and a registry.
//
//   class Relu : public weft_sdk::Kernel {
//    public:
//     static bool Match(const weft_sdk::Op& op, weft_match* answer) {
//       return op.in(0).dtype() == WEFT_F32;
//     }
//     explicit Relu(const weft_sdk::Op& op) : n_(op.out(0).numel()) {}
//     void Launch(const weft_sdk::Call& call) const override {
//       const float* x = call.in<float>(0);
//       float* y = call.out<float>(0);
//       for (int64_t i = 0; i < n_; ++i) y[i] = x[i] > 0 ? x[i] : 0;
//     }
//    private:
//     int64_t n_;
//   };
//   registry.Add<Relu>(WEFT_OP_RELU);
//
// Several classes may be added for one op: the first that matches is taken, so
// add the fast and narrow one first.
//
// Threading: a Registry is filled once and then only read; a Kernel is
// immutable, Launch() may run on several threads at once.
#ifndef WEFT_PLUGINS_SDK_WEFT_KERNEL_HPP_
#define WEFT_PLUGINS_SDK_WEFT_KERNEL_HPP_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/abi/weft_plugin.h"
#include "plugins/sdk/weft_host.hpp"

namespace weft_sdk {

// Bytes of one element, 0 for an unknown type.
inline size_t SizeOf(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F64:
    case WEFT_I64:
      return 8;
    case WEFT_F32:
    case WEFT_I32:
      return 4;
    case WEFT_F16:
    case WEFT_BF16:
    case WEFT_I16:
      return 2;
    case WEFT_I8:
    case WEFT_U8:
    case WEFT_BOOL:
      return 1;
    default:
      return 0;
  }
}

// The description of an operand.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const weft_tensor& t) : t_(t) {}

  bool present() const { return t_.dtype != 0; }
  uint32_t dtype() const { return t_.dtype; }
  int rank() const { return static_cast<int>(t_.rank); }
  // Negative i counts from the end.
  int64_t dim(int i) const { return t_.dims[i < 0 ? i + rank() : i]; }
  int64_t stride(int i) const { return t_.strides[i < 0 ? i + rank() : i]; }
  std::vector<int64_t> dims() const { return {t_.dims, t_.dims + t_.rank}; }
  std::vector<int64_t> strides() const {
    return {t_.strides, t_.strides + t_.rank};
  }
  bool constant() const { return (t_.flags & WEFT_TENSOR_CONSTANT) != 0; }

  // Elements of the whole tensor; of dimensions [begin, end).
  int64_t numel() const { return numel(0, rank()); }
  int64_t numel(int begin, int end) const {
    int64_t n = 1;
    for (int i = begin; i < end; ++i) n *= t_.dims[i];
    return n;
  }
  int64_t bytes() const {
    return numel() * static_cast<int64_t>(SizeOf(t_.dtype));
  }

  // Row-major without gaps. Dimensions of extent 1 may have any stride.
  bool dense() const {
    int64_t expected = 1;
    for (int i = rank() - 1; i >= 0; --i) {
      if (t_.dims[i] != 1 && t_.strides[i] != expected) return false;
      expected *= t_.dims[i];
    }
    return true;
  }

  bool same_dims(const Tensor& other) const { return dims() == other.dims(); }

 private:
  weft_tensor t_{};
};

// The description of one use of an op. A copy: it may outlive the call. Refuses
// (WEFT_INVALID) what the ABI does not allow, so that kernels need not.
class Op {
 public:
  explicit Op(const weft_op_desc* desc) {
    const weft_op_desc d = ReadIn(desc);
    if (d.flags != 0) throw Error(WEFT_INVALID, "unknown flags of an op");
    if (d.input_count > WEFT_MAX_OPERANDS ||
        d.output_count > WEFT_MAX_OPERANDS) {
      throw Error(WEFT_INVALID, "too many operands");
    }
    id_ = d.op;
    version_ = d.version;
    ReadTensors(d.inputs, d.input_count, &inputs_);
    ReadTensors(d.outputs, d.output_count, &outputs_);
    for (uint64_t i = 0; i < d.attr_count; ++i) {
      const weft_attr a = ReadElement(d.attrs, i);
      Attr attr{a.kind, a.i, a.f, std::string(View(a.s)), {}, {}, {}};
      if (a.kind == WEFT_ATTR_INTS && a.count != 0) {
        attr.ints.assign(a.ints, a.ints + a.count);
      } else if (a.kind == WEFT_ATTR_FLOATS && a.count != 0) {
        attr.floats.assign(a.floats, a.floats + a.count);
      } else if (a.kind == WEFT_ATTR_STRINGS) {
        for (uint64_t j = 0; j < a.count; ++j) {
          attr.strings.emplace_back(View(a.strings[j]));
        }
      }
      attrs_.emplace(std::string(View(a.name)), std::move(attr));
    }
  }

  uint32_t id() const { return id_; }  // WEFT_OP_*
  uint32_t version() const { return version_; }
  int num_in() const { return static_cast<int>(inputs_.size()); }
  int num_out() const { return static_cast<int>(outputs_.size()); }
  const Tensor& in(int i) const { return At(inputs_, i); }
  const Tensor& out(int i) const { return At(outputs_, i); }
  // True where optional input i is there.
  bool has_in(int i) const { return i < num_in() && inputs_[i].present(); }

  bool has(std::string_view name) const {
    return attrs_.count(std::string(name)) != 0;
  }
  // The host sends every attribute, defaults included; `otherwise` is for one
  // that a newer schema has and an older host does not send.
  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    const Attr* a = Find(name, WEFT_ATTR_INT);
    return a == nullptr ? otherwise : a->i;
  }
  double Float(std::string_view name, double otherwise = 0) const {
    const Attr* a = Find(name, WEFT_ATTR_FLOAT);
    return a == nullptr ? otherwise : a->f;
  }
  std::string String(std::string_view name,
                     std::string_view otherwise = "") const {
    const Attr* a = Find(name, WEFT_ATTR_STRING);
    return a == nullptr ? std::string(otherwise) : a->s;
  }
  uint32_t DType(std::string_view name, uint32_t otherwise = 0) const {
    const Attr* a = Find(name, WEFT_ATTR_DTYPE);
    return a == nullptr ? otherwise : static_cast<uint32_t>(a->i);
  }
  std::vector<int64_t> Ints(std::string_view name) const {
    const Attr* a = Find(name, WEFT_ATTR_INTS);
    return a == nullptr ? std::vector<int64_t>() : a->ints;
  }
  std::vector<double> Floats(std::string_view name) const {
    const Attr* a = Find(name, WEFT_ATTR_FLOATS);
    return a == nullptr ? std::vector<double>() : a->floats;
  }
  std::vector<std::string> Strings(std::string_view name) const {
    const Attr* a = Find(name, WEFT_ATTR_STRINGS);
    return a == nullptr ? std::vector<std::string>() : a->strings;
  }

  // Every operand that is there is row-major without gaps.
  bool dense() const {
    for (const Tensor& t : inputs_) {
      if (t.present() && !t.dense()) return false;
    }
    for (const Tensor& t : outputs_) {
      if (t.present() && !t.dense()) return false;
    }
    return true;
  }
  // Inputs [begin, end) and all outputs have `dtype`.
  bool all(uint32_t dtype, int begin = 0, int end = -1) const {
    for (int i = begin; i < (end < 0 ? num_in() : end); ++i) {
      if (has_in(i) && inputs_[i].dtype() != dtype) return false;
    }
    for (const Tensor& t : outputs_) {
      if (t.present() && t.dtype() != dtype) return false;
    }
    return true;
  }

 private:
  struct Attr {
    uint32_t kind;
    int64_t i;
    double f;
    std::string s;
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::vector<std::string> strings;
  };

  static void ReadTensors(const weft_tensor* array, uint32_t count,
                          std::vector<Tensor>* out) {
    for (uint32_t i = 0; i < count; ++i) {
      const weft_tensor t = ReadElement(array, i);
      if (t.rank > WEFT_MAX_RANK) throw Error(WEFT_INVALID, "rank above 8");
      if ((t.flags & ~WEFT_TENSOR_CONSTANT) != 0 || t.layout != 0) {
        throw Error(WEFT_INVALID, "unknown flags or layout of a tensor");
      }
      for (uint32_t d = 0; d < t.rank; ++d) {
        if (t.dims[d] < 0) throw Error(WEFT_INVALID, "negative dimension");
      }
      out->emplace_back(t);
    }
  }
  static const Tensor& At(const std::vector<Tensor>& list, int i) {
    if (i < 0 || i >= static_cast<int>(list.size())) {
      throw Error(WEFT_INVALID, "an operand is missing");
    }
    return list[i];
  }
  const Attr* Find(std::string_view name, uint32_t kind) const {
    auto it = attrs_.find(std::string(name));
    if (it == attrs_.end()) return nullptr;
    if (it->second.kind != kind) {
      throw Error(WEFT_INVALID,
                  "attribute '" + it->first + "' of the wrong kind");
    }
    return &it->second;
  }

  uint32_t id_ = 0;
  uint32_t version_ = 0;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::unordered_map<std::string, Attr> attrs_;
};

// The operands of one launch, for devices whose memory the kernel can address:
// `mem` is then the address of an allocation (InlineDevice), or the device has
// set `host` to where the operand lies.
class Call {
 public:
  Call(const weft_buffer* inputs, const weft_buffer* outputs,
       const weft_buffer* workspace)
      : inputs_(inputs), outputs_(outputs), workspace_(workspace) {}

  // Null for an optional operand that is absent.
  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(Address(inputs_[i]));
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(Address(outputs_[i]));
  }
  template <typename T>
  T* workspace() const {
    return workspace_ == nullptr ? nullptr
                                 : static_cast<T*>(Address(*workspace_));
  }

 private:
  static void* Address(const weft_buffer& b) {
    return b.mem != 0 ? reinterpret_cast<char*>(b.mem) + b.offset : b.host;
  }

  const weft_buffer* inputs_;
  const weft_buffer* outputs_;
  const weft_buffer* workspace_;
};

// One op with fixed shapes. A derived class K has besides:
//   static bool Match(const Op& op, weft_match* answer);
//     True where K(op) would work. `answer` comes filled for an exact,
//     deterministic kernel without workspace. Pure; looks at strides only where
//     kStrided is true.
//   explicit K(const Op& op);
class Kernel {
 public:
  // A derived class that takes operands with gaps hides this with true;
  // elsewhere the registry asks the host for dense operands.
  static constexpr bool kStrided = false;

  virtual ~Kernel() = default;
  virtual void Launch(const Call& call) const = 0;
};

class Registry {
 public:
  template <typename K>
  Registry& Add(uint32_t op) {
    entries_[op].push_back(
        {&K::Match, K::kStrided, [](const Op& o) -> std::unique_ptr<Kernel> {
           return std::make_unique<K>(o);
         }});
    return *this;
  }
  template <typename K>
  Registry& Add(std::initializer_list<uint32_t> ops) {
    for (uint32_t op : ops) Add<K>(op);
    return *this;
  }

  // For ops without a class of their own that matches.
  template <typename K>
  Registry& AddForAll() {
    return Add<K>(kAllOps);
  }

  // False where no class matches.
  bool Match(const Op& op, weft_match* answer) const {
    return Find(op, answer) != nullptr;
  }

  // WEFT_UNSUPPORTED where no class matches, WEFT_INVALID where operands had to
  // be dense and are not.
  std::unique_ptr<Kernel> Create(const Op& op) const {
    weft_match answer{};
    const Entry* entry = Find(op, &answer);
    if (entry == nullptr) throw Error(WEFT_UNSUPPORTED, "no kernel");
    if (answer.fit != WEFT_FIT_EXACT) {
      throw Error(WEFT_INVALID, "the kernel needs dense operands");
    }
    return entry->create(op);
  }

 private:
  static constexpr uint32_t kAllOps = 0;  // no op has this id

  struct Entry {
    bool (*match)(const Op&, weft_match*);
    bool strided;
    std::unique_ptr<Kernel> (*create)(const Op&);
  };

  const Entry* Find(const Op& op, weft_match* answer) const {
    const Entry* found = FindUnder(op.id(), op, answer);
    return found != nullptr ? found : FindUnder(kAllOps, op, answer);
  }

  const Entry* FindUnder(uint32_t key, const Op& op, weft_match* answer) const {
    auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    for (const Entry& entry : it->second) {
      *answer = weft_match{};
      answer->struct_size = sizeof(weft_match);
      answer->fit = WEFT_FIT_EXACT;
      answer->determinism = WEFT_DETERMINISTIC;
      if (!entry.match(op, answer)) continue;
      if (!entry.strided && !op.dense()) answer->fit = WEFT_FIT_NEEDS_DENSE;
      return &entry;
    }
    return nullptr;
  }

  std::unordered_map<uint32_t, std::vector<Entry>> entries_;
};

}  // namespace weft_sdk

#endif  // WEFT_PLUGINS_SDK_WEFT_KERNEL_HPP_
