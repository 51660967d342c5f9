// The options of a gRPC domain, by their names in weft_domain_config:
//
//   eager_max      largest SEND that is copied when posted        16384
//   eager_credits  such SENDs of an endpoint under way               64
//   max_inflight   RECVs, and larger SENDs, of an endpoint        65536
//   listen         numeric address and port             "127.0.0.1:0"
//   interface      instead of it: listen on the address of this interface
//   advertise      numeric address that peers are told, if not that one
//   tls_ca, tls_cert, tls_key    PEM files: connections are private
//   insecure       1: listen where other machines reach it without TLS and
//                  a secret
//
// Threading: a value.
#ifndef WEFT_TRANSPORT_GRPC_OPTIONS_H_
#define WEFT_TRANSPORT_GRPC_OPTIONS_H_

#include <cstdint>
#include <string>

#include "plugins/sdk/weft_hello.hpp"

namespace weft_grpc {

struct Options {
  uint64_t eager_max = 16384;
  uint32_t eager_credits = 64;
  uint32_t max_inflight = 65536;
  std::string host = "127.0.0.1";  // to listen at
  int port = 0;
  std::string advertise;             // empty: `host`
  std::string ca, certificate, key;  // PEM; all or none
  std::string risk;  // of listening, which `insecure` allows; empty: none

  bool tls() const { return !ca.empty(); }
  // Reached from this machine only.
  bool loopback() const;

  // Throws weft_sdk::Error(WEFT_INVALID) for an unknown key or a bad value, and
  // where others than the job could get in.
  static Options Parse(const weft_sdk::DomainConfig& config);
};

// "127.0.0.1:80", "[::1]:80". False where it is not both.
bool SplitAddress(const std::string& text, std::string* host, int* port);
std::string JoinAddress(const std::string& host, int port);

// What the system says to somebody who wants to listen there; empty: go ahead.
std::string WhyNotListen(const std::string& host, int port);

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_OPTIONS_H_
