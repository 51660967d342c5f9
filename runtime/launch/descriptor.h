// Descriptor: a file descriptor that is closed when its owner goes.
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_LAUNCH_DESCRIPTOR_H_
#define WEFT_RUNTIME_LAUNCH_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace weft::launch {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_DESCRIPTOR_H_
