#include "transport/grpc/options.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "transport/grpc/wire.h"

namespace weft_grpc {
namespace {

using weft_sdk::Error;
using weft_sdk::ParseOption;

bool IsNumeric(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address) == 1;
}

// However it is written.
bool IsAny(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return v4.s_addr == INADDR_ANY;
  }
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string AddressOf(const std::string& interface) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw Error(WEFT_INTERNAL, std::string("getifaddrs: ") + strerror(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, freeifaddrs);
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (interface != i->ifa_name || i->ifa_addr == nullptr ||
        i->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    char text[INET_ADDRSTRLEN];
    const auto* in = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    return text;
  }
  throw Error(WEFT_INVALID, "option interface=" + interface +
                                ": there is none with an IPv4 address");
}

// A PEM file that nobody else can have changed, nor read where it is a key.
std::string ReadPem(const std::string& key, const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  const std::string what = "option " + key + "=" + path + ": ";
  // A FIFO would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Error(WEFT_INVALID, what + strerror(errno));
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fdopen(fd, "r"), fclose);
  if (file == nullptr) {
    close(fd);
    throw Error(WEFT_INVALID, what + strerror(errno));
  }
  struct stat st;
  if (fstat(fileno(file.get()), &st) != 0 || !S_ISREG(st.st_mode)) {
    throw Error(WEFT_INVALID, what + "not a file");
  }
  const mode_t forbidden = key == "tls_key" ? 077 : 022;
  if ((st.st_mode & forbidden) != 0 ||
      (st.st_uid != geteuid() && st.st_uid != 0)) {
    throw Error(WEFT_INVALID,
                what + (key == "tls_key" ? "others can read or change it"
                                         : "others can change it"));
  }
  std::string text(kMost, '\0');
  text.resize(fread(text.data(), 1, kMost, file.get()));
  if (text.find("-----BEGIN ") == std::string::npos) {
    throw Error(WEFT_INVALID, what + "no PEM in it");
  }
  return text;
}

// Returns the risk.
std::string CheckTogether(const Options& o, bool secret, bool insecure) {
  if (o.ca.empty() != o.key.empty() || o.ca.empty() != o.certificate.empty()) {
    throw Error(WEFT_INVALID,
                "tls_ca, tls_cert and tls_key: all of them or none");
  }
  if (IsAny(o.host) && o.advertise.empty()) {
    throw Error(WEFT_INVALID, "listen=" + o.host +
                                  " is every address: option advertise says "
                                  "which one peers are told");
  }
  if (o.loopback() || (o.tls() && secret)) return "";
  const std::string what =
      "listen=" + o.host +
      " is reached by other machines, and the job has no " +
      (secret ? "TLS" : "secret");
  if (!insecure) {
    throw Error(WEFT_INVALID, what + "; option insecure=1 allows it");
  }
  return what + " (insecure=1)";
}

}  // namespace

bool SplitAddress(const std::string& text, std::string* host, int* port) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  *host = text.substr(0, colon);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']') {
    *host = host->substr(1, host->size() - 2);
  } else if (host->find(':') != std::string::npos) {
    return false;
  }
  const std::string number = text.substr(colon + 1);
  if (number.empty() || number.size() > 5 ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    return false;
  }
  *port = std::stoi(number);
  return *port <= 65535 && IsNumeric(*host);
}

std::string JoinAddress(const std::string& host, int port) {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string WhyNotListen(const std::string& host, int port) {
  union {
    sockaddr any;
    sockaddr_in four;
    sockaddr_in6 six;
  } at{};
  if (host.find(':') == std::string::npos) {
    at.four.sin_family = AF_INET;
    at.four.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host.c_str(), &at.four.sin_addr);
  } else {
    at.six.sin6_family = AF_INET6;
    at.six.sin6_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET6, host.c_str(), &at.six.sin6_addr);
  }
  const int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return strerror(errno);
  const int on = 1;  // as gRPC does
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  std::string why;
  if (bind(fd, &at.any, sizeof(at)) != 0 || listen(fd, 1) != 0) {
    why = strerror(errno);
  }
  close(fd);
  return why;
}

bool Options::loopback() const {
  return host == "::1" || host.compare(0, 4, "127.") == 0;
}

Options Options::Parse(const weft_sdk::DomainConfig& config) {
  constexpr uint64_t kMany = 1u << 20;
  Options o;
  bool insecure = false;
  const auto number = [](const std::string& key, const std::string& value,
                         uint64_t least, uint64_t most) {
    return static_cast<uint32_t>(ParseOption(key, value, least, most));
  };
  for (const auto& [key, value] : config.options) {
    if (key == "eager_max") {
      o.eager_max = number(key, value, 1, kMaxEager);
    } else if (key == "eager_credits") {
      o.eager_credits = number(key, value, 1, kMaxCredits);
    } else if (key == "max_inflight") {
      o.max_inflight = number(key, value, 1, kMany);
    } else if (key == "listen") {
      if (!SplitAddress(value, &o.host, &o.port)) {
        throw Error(WEFT_INVALID, "option listen=" + value +
                                      " is not a numeric address and a port, "
                                      "as in 127.0.0.1:0");
      }
    } else if (key == "interface") {
      o.host = AddressOf(value);
    } else if (key == "advertise") {
      if (!IsNumeric(value) || IsAny(value)) {
        throw Error(WEFT_INVALID, "option advertise=" + value +
                                      " is not the numeric address of a host");
      }
      o.advertise = value;
    } else if (key == "tls_ca") {
      o.ca = ReadPem(key, value);
    } else if (key == "tls_cert") {
      o.certificate = ReadPem(key, value);
    } else if (key == "tls_key") {
      o.key = ReadPem(key, value);
    } else if (key == "insecure") {
      insecure = ParseOption(key, value, 0, 1) == 1;
    } else {
      throw Error(WEFT_INVALID, "unknown option '" + key + "'");
    }
  }
  o.risk = CheckTogether(o, !config.secret.empty(), insecure);
  return o;
}

}  // namespace weft_grpc
