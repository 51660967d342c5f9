// The RECVs of one end of a connection and the messages of the peer, which meet
// by their tags. See exchange.h, which it is a part of.
//
//   arrivals of a tag:  small, small, LARGE   first come, first met
//   RECVs of a tag:     r1,    r2,    r3      while LARGE moves its tag waits
//
// Threading: thread-compatible; the domain's lock guards it.
#ifndef WEFT_TRANSPORT_COMMON_INCOMING_H_
#define WEFT_TRANSPORT_COMMON_INCOMING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_near_map.hpp"
#include "transport/common/operations.h"

namespace weft_transport {

template <typename Carrier, typename Body>
class Incoming {
 protected:
  Incoming(const Operations& operations, const Limits& own, const Limits& peer)
      : operations_(operations), own_(own), peer_(peer) {}
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  weft_code PostRecv(const weft_transport_op& op, weft_status* status) {
    if (recvs_ == own_.max_inflight) {
      return operations_.Again("RECVs", own_.max_inflight, status);
    }
    ++recvs_;
    Lane& lane = lanes_.at(op.tag);
    lane.recvs.push_back({op.host, op.length, op.cookie});
    Match(op.tag, &lane);
    return weft_sdk::Ok(status);
  }

  // ---- What the peer says --------------------------------------------------

  bool TakeEager(uint64_t id, uint64_t tag, bool urgent,
                 std::string_view bytes) {
    if (bytes.size() > peer_.eager_max || id <= last_arrival_[urgent] ||
        arrived_[urgent] == peer_.eager_credits) {
      return false;
    }
    last_arrival_[urgent] = id;
    if (closing_) return true;
    ++arrived_[urgent];
    Lane& lane = lanes_.at(tag);
    if (lane.busy == 0 && lane.arrivals.empty() && !lane.recvs.empty()) {
      const Recv recv = lane.recvs.front();
      lane.recvs.pop_front();
      Meet(tag, id, kEagerArrivals[urgent], bytes.size(), bytes, recv);
      ForgetIfIdle(tag, lane);
      return true;
    }
    lane.arrivals.push_back(
        {id, bytes.size(), kEagerArrivals[urgent], Body(bytes)});
    return true;
  }

  bool TakeLarge(uint64_t id, uint64_t tag, uint64_t length) {
    if (length <= peer_.eager_max || id <= last_arrival_[0] ||
        arrived_[kLargeArrival] == peer_.max_inflight) {
      return false;
    }
    last_arrival_[0] = id;
    if (closing_) return true;
    ++arrived_[kLargeArrival];
    Lane& lane = lanes_.at(tag);
    lane.arrivals.push_back({id, length, kLargeArrival, Body()});
    Match(tag, &lane);
    return true;
  }

  // Where the next `bytes` of message `id` go: null where they are let go. That
  // RECV stays where it is until EndChunk. False: nonsense.
  bool BeginChunk(uint64_t id, uint64_t bytes, char** to) {
    const auto it = moving_.find(id);
    if (it == moving_.end() || bytes == 0 ||
        bytes > it->second.recv.length - it->second.got) {
      return false;
    }
    Moving& moving = it->second;
    *to = moving.dropped ? nullptr
                         : static_cast<char*>(moving.recv.data) + moving.got;
    moving.got += bytes;
    return true;
  }

  void EndChunk(uint64_t id) {
    const auto it = moving_.find(id);
    const Moving moving = it->second;
    if (moving.got < moving.recv.length || moving.dropped) return;
    moving_.erase(it);
    Lane& lane = lanes_.at(moving.tag);
    lane.busy = 0;
    --arrived_[kLargeArrival];
    carrier().SayFin(id, /*urgent=*/false, /*mismatch=*/false,
                     moving.recv.length);
    CompleteRecv(moving.tag, moving.recv, /*urgent=*/false, WEFT_OK, "");
    Match(moving.tag, &lane);
  }

  // ---- The end -------------------------------------------------------------

  // Messages whose first chunk has not come do not begin.
  void CloseRecvs() {
    closing_ = true;
    for (auto& [id, moving] : moving_) moving.dropped = moving.got == 0;
  }
  // Nothing is left that was begun.
  bool RecvsFinished() const {
    return std::all_of(moving_.begin(), moving_.end(),
                       [](const auto& entry) { return entry.second.dropped; });
  }

  void CompleteRecvs(weft_code code, const std::string& why) {
    for (auto& [tag, lane] : lanes_) {
      if (lane.busy != 0) {
        CompleteRecv(tag, moving_.at(lane.busy).recv, false, code, why);
      }
      for (; !lane.recvs.empty(); lane.recvs.pop_front()) {
        CompleteRecv(tag, lane.recvs.front(), false, code, why);
      }
    }
    lanes_.clear();
    moving_.clear();
  }

 private:
  // Messages of the peer that are not answered are counted by what they are.
  enum ArrivalKind { kUsualArrival, kUrgentArrival, kLargeArrival };
  static constexpr ArrivalKind kEagerArrivals[2] = {kUsualArrival,
                                                    kUrgentArrival};

  struct Recv {
    void* data = nullptr;
    uint64_t length = 0;
    uint64_t cookie = 0;
  };
  // A message of the peer that waits for its RECV.
  struct Arrival {
    uint64_t id = 0;
    uint64_t length = 0;
    ArrivalKind kind = kUsualArrival;
    Body body;
  };
  // A large message that has its RECV.
  struct Moving {
    uint64_t tag;
    Recv recv;
    uint64_t got;
    bool dropped;  // its chunks are let go: the end came before the first
  };
  struct Lane {
    weft_sdk::Fifo<Arrival> arrivals;
    weft_sdk::Fifo<Recv> recvs;
    uint64_t busy = 0;  // id of the large message that moves
  };
  // Lanes that have nothing are forgotten where there are more than this.
  static constexpr size_t kKeptLanes = 1024;

  Carrier& carrier() { return static_cast<Carrier&>(*this); }

  void Match(uint64_t tag, Lane* lane) {
    while (!closing_ && lane->busy == 0 && !lane->arrivals.empty() &&
           !lane->recvs.empty()) {
      const Arrival arrival = std::move(lane->arrivals.front());
      const Recv recv = lane->recvs.front();
      lane->arrivals.pop_front();
      lane->recvs.pop_front();
      if (arrival.length == recv.length && arrival.kind == kLargeArrival) {
        lane->busy = arrival.id;
        moving_[arrival.id] = {tag, recv, /*got=*/0, /*dropped=*/false};
        carrier().SayClear(arrival.id);
        return;
      }
      Meet(tag, arrival.id, arrival.kind, arrival.length, arrival.body, recv);
    }
    ForgetIfIdle(tag, *lane);
  }

  // A small message and its RECV, or two lengths that differ.
  void Meet(uint64_t tag, uint64_t id, ArrivalKind kind, uint64_t length,
            std::string_view bytes, const Recv& recv) {
    --arrived_[kind];
    const bool urgent = kind == kUrgentArrival;
    const bool same = length == recv.length;
    if (same && length != 0) std::memcpy(recv.data, bytes.data(), length);
    carrier().SayFin(id, urgent, !same, recv.length);
    if (same) {
      CompleteRecv(tag, recv, urgent, WEFT_OK, "");
    } else {
      CompleteRecv(tag, recv, urgent, WEFT_INVALID,
                   Operations::Lengths(length, recv.length));
    }
  }

  void ForgetIfIdle(uint64_t tag, const Lane& lane) {
    if (lanes_.size() > kKeptLanes && lane.busy == 0 && lane.arrivals.empty() &&
        lane.recvs.empty()) {
      lanes_.erase(tag);
    }
  }

  void CompleteRecv(uint64_t tag, const Recv& recv, bool urgent, weft_code code,
                    std::string_view message) {
    --recvs_;
    if (code == WEFT_OK) {
      ++operations_.stats().received_messages;
      operations_.stats().received_bytes += recv.length;
    }
    operations_.Complete(WEFT_TRANSPORT_RECV, tag, recv.cookie, recv.length,
                         urgent, code, message);
  }

  const Operations operations_;
  const Limits own_;
  const Limits peer_;
  weft_sdk::NearMap<Lane> lanes_;  // by tag
  std::map<uint64_t, Moving> moving_;
  uint64_t last_arrival_[2] = {0, 0};  // [1]: urgent
  uint32_t arrived_[3] = {0, 0, 0};    // by ArrivalKind
  uint32_t recvs_ = 0;
  bool closing_ = false;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_INCOMING_H_
