#include "runtime/rendezvous/grpc_log.h"

#include <grpc/support/log.h>

#include "glog/logging.h"

namespace weft::runtime {

void QuietGrpc() {
  static const bool once = [] {
    gpr_set_log_function([](gpr_log_func_args* args) {
      VLOG(1) << "gRPC " << args->file << ":" << args->line << " "
              << args->message;
    });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace weft::runtime
