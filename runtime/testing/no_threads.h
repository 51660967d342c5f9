// NoThreads: while it lives, the system starts no thread for this process, as
// at the end of what `ulimit -u` allows (which would not stop root).
//
//   testing::NoThreads none;
//   EXPECT_FALSE(session->Run("train", 0, 1).ok());
//
// It asks for stacks larger than the address space.
//
// Threading: one at a time, and nobody else starts threads meanwhile.
#ifndef WEFT_RUNTIME_TESTING_NO_THREADS_H_
#define WEFT_RUNTIME_TESTING_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>

#include "glog/logging.h"

namespace weft::runtime::testing {

class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t attr;
    CHECK_EQ(pthread_getattr_default_np(&attr), 0);
    CHECK_EQ(pthread_attr_getstacksize(&attr, &stack_bytes_), 0);
    Set(&attr, size_t{1} << 50);
  }
  ~NoThreads() {
    pthread_attr_t attr;
    CHECK_EQ(pthread_getattr_default_np(&attr), 0);
    Set(&attr, stack_bytes_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void Set(pthread_attr_t* attr, size_t stack_bytes) {
    CHECK_EQ(pthread_attr_setstacksize(attr, stack_bytes), 0);
    CHECK_EQ(pthread_setattr_default_np(attr), 0);
    pthread_attr_destroy(attr);
  }
  size_t stack_bytes_ = 0;
};

}  // namespace weft::runtime::testing

#endif  // WEFT_RUNTIME_TESTING_NO_THREADS_H_
