#include "transport/shm/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft_shm {
namespace {

constexpr uint32_t kMagic = 0x6d687377;  // "wshm"
constexpr size_t kMaxFds = 2;

union Control {
  char bytes[CMSG_SPACE(kMaxFds * sizeof(int))];
  cmsghdr align;
};

void SetToken(char (&field)[kTokenChars], const std::string& token) {
  std::memcpy(field, token.data(), std::min(token.size(), sizeof(field)));
}

RawFrame ToRaw(const Frame& frame) {
  RawFrame raw{};
  raw.magic = kMagic;
  raw.plugin_version = frame.hello.plugin_version;
  raw.kind = static_cast<uint32_t>(frame.kind);
  raw.rank = frame.hello.rank;
  raw.world = frame.hello.world;
  raw.wire_version = frame.hello.wire_version;
  raw.epoch = frame.hello.epoch;
  raw.incarnation = frame.hello.incarnation;
  raw.plan_hash = frame.hello.plan_hash;
  raw.eager_max = frame.geometry.eager_max;
  raw.credits = frame.geometry.credits;
  raw.max_inflight = frame.max_inflight;
  raw.expected = frame.expected;
  raw.reason = frame.refusal.reason;
  raw.job_size = static_cast<uint32_t>(frame.hello.job.size());
  std::memcpy(raw.job, frame.hello.job.data(), frame.hello.job.size());
  const std::string& message = frame.refusal.message;
  raw.message_size =
      static_cast<uint32_t>(std::min(message.size(), sizeof(raw.message)));
  std::memcpy(raw.message, message.data(), raw.message_size);
  SetToken(raw.token, frame.token);
  SetToken(raw.address, frame.address);
  return raw;
}

bool FromRaw(const RawFrame& raw, Frame* frame) {
  if (raw.magic != kMagic || raw.job_size > sizeof(raw.job) ||
      raw.message_size > sizeof(raw.message) ||
      raw.reason > WEFT_REFUSED_PLAN) {
    return false;
  }
  frame->kind = static_cast<FrameKind>(raw.kind);
  frame->hello = {raw.rank,
                  raw.world,
                  raw.wire_version,
                  raw.plugin_version,
                  std::string(raw.job, raw.job_size),
                  raw.epoch,
                  raw.incarnation,
                  raw.plan_hash};
  frame->geometry = {raw.eager_max, raw.credits};
  frame->max_inflight = raw.max_inflight;
  frame->expected = raw.expected;
  frame->refusal = {raw.reason, std::string(raw.message, raw.message_size)};
  frame->token.assign(raw.token, sizeof(raw.token));
  frame->address.assign(raw.address, sizeof(raw.address));
  return true;
}

void TakeFds(msghdr* header, std::vector<Fd>* fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr;
       c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      fds->emplace_back(fd);
    }
  }
}

}  // namespace

bool SendFrame(const Fd& socket, const Frame& frame,
               const std::vector<int>& fds) {
  RawFrame raw = ToRaw(frame);
  iovec data{&raw, sizeof(raw)};
  Control control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(raw));
}

Received ReceiveFrame(const Fd& socket, Frame* frame) {
  RawFrame raw;
  iovec data{&raw, sizeof(raw)};
  Control control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof(control.bytes);
  ssize_t size;
  do {
    size = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return Received::kNothingYet;
  if (size <= 0) return Received::kGone;
  frame->fds.clear();
  TakeFds(&header, &frame->fds);  // whatever else is wrong: they are ours now
  if (size != static_cast<ssize_t>(sizeof(raw)) ||
      (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Received::kGarbage;
  }
  return FromRaw(raw, frame) ? Received::kFrame : Received::kGarbage;
}

}  // namespace weft_shm
