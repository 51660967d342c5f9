#include "core/base/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace weft {

class Secret::Pages {
 public:
  // Fails for lack of memory only, as `new` does.
  explicit Pages(size_t room) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (room + page - 1) / page * page;
    void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    bytes_ = static_cast<char*>(at);
    // Linux has it since 3.4, for memory of every kind.
    if (madvise(at, mapped_, MADV_DONTDUMP) != 0) std::abort();
  }
  ~Pages() {
    explicit_bzero(bytes_, mapped_);
    munmap(bytes_, mapped_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* bytes() { return bytes_; }
  void set_size(size_t size) { size_ = size; }
  absl::string_view view() const { return {bytes_, size_}; }

 private:
  char* bytes_;
  size_t mapped_;
  size_t size_ = 0;
};

Secret Secret::Fill(size_t most, const std::function<size_t(char*)>& fill) {
  auto pages = std::make_shared<Pages>(std::max<size_t>(most, 1));
  pages->set_size(fill(pages->bytes()));
  Secret secret;
  secret.pages_ = std::move(pages);
  return secret;
}

Secret Secret::Join(std::initializer_list<absl::string_view> parts) {
  size_t size = 0;
  for (absl::string_view part : parts) size += part.size();
  return Fill(size, [&parts](char* to) {
    char* at = to;
    for (absl::string_view part : parts) {
      if (!part.empty()) std::memcpy(at, part.data(), part.size());
      at += part.size();
    }
    return static_cast<size_t>(at - to);
  });
}

absl::string_view Secret::view() const {
  return pages_ == nullptr ? absl::string_view() : pages_->view();
}

}  // namespace weft
