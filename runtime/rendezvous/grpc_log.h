// What gRPC logs goes to this process's log, for those who look closer, not to
// stderr: a stranger at the door is no news for a user. transport/grpc, which
// shares the library, takes it away altogether, unless GRPC_VERBOSITY asks for
// more than errors.
//
//   QuietGrpc();   // before the first use of gRPC
//
// Threading: thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_GRPC_LOG_H_
#define WEFT_RUNTIME_RENDEZVOUS_GRPC_LOG_H_

namespace weft::runtime {

void QuietGrpc();

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_GRPC_LOG_H_
