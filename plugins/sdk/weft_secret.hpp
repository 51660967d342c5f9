// The job's secret in a plugin: bytes in a page of their own, which the kernel
// leaves out of core files (MADV_DONTDUMP) and which is wiped when the last
// copy goes. DomainConfig (weft_hello.hpp) has it so.
//
//   Prove(config.secret.view(), ...);
//
// Who makes a std::string of it shows it to everybody who reads a core file.
//
// Threading: as std::shared_ptr<const T>. Ownership: copies share the page.
#ifndef WEFT_PLUGINS_SDK_WEFT_SECRET_HPP_
#define WEFT_PLUGINS_SDK_WEFT_SECRET_HPP_

#include <string.h>
#include <sys/mman.h>

#include <memory>
#include <string_view>

#include "plugins/sdk/weft_host.hpp"

namespace weft_sdk {

class Secret {
 public:
  static constexpr size_t kMost = 4096;  // the smallest page there is

  Secret() = default;
  // Throws Error(WEFT_OOM). Pre-condition: at most kMost bytes.
  explicit Secret(std::string_view bytes) : size_(bytes.size()) {
    if (bytes.empty()) return;
    void* page = mmap(nullptr, kMost, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw Error(WEFT_OOM, "no page for a secret");
    page_ = std::shared_ptr<char>(static_cast<char*>(page), Forget);
    if (madvise(page, kMost, MADV_DONTDUMP) != 0) {
      throw Error(WEFT_INTERNAL, "MADV_DONTDUMP");
    }
    memcpy(page, bytes.data(), bytes.size());
  }

  std::string_view view() const { return {page_.get(), size_}; }
  bool empty() const { return size_ == 0; }

 private:
  static void Forget(char* page) {
    explicit_bzero(page, kMost);
    munmap(page, kMost);
  }

  std::shared_ptr<char> page_;
  size_t size_ = 0;
};

}  // namespace weft_sdk

#endif  // WEFT_PLUGINS_SDK_WEFT_SECRET_HPP_
