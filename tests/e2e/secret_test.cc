// The job's secret is where it has to be and nowhere else: in no argument, no
// environment, no file, and in no memory that a core file would have.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/os.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/proof.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

constexpr char kSecret[] = "4b1d7e0a92c35f688b2e01d7fa64937c";
// Larger mappings that core files leave out are not looked at: shadow memory.
constexpr uint64_t kMostLeftOut = 1 << 20;

const Sets kEndless = {"epochs=0", "steps=100000000"};

// What nobody may find: both halves, for a copy may be damaged, and the key
// that transports are given.
std::vector<std::string> Needles() {
  const std::string secret = kSecret;
  return {secret.substr(0, 16), secret.substr(16),
          std::string(runtime::KeyOf(secret, "transport").view())};
}

bool HasNeedle(absl::string_view text) {
  static const std::vector<std::string> needles = Needles();
  for (const std::string& needle : needles) {
    if (absl::StrContains(text, needle)) return true;
  }
  return false;
}

std::string ProcText(pid_t pid, const char* name) {
  return ReadText(absl::StrCat("/proc/", pid, "/", name));
}

// The memory of a process, of which most was asked for and never touched.
class Memory {
 public:
  explicit Memory(pid_t pid)
      : bytes_(Open(pid, "mem")), pages_(Open(pid, "pagemap")) {}
  ~Memory() {
    close(bytes_);
    close(pages_);
  }

  bool Has(uint64_t begin, uint64_t end) const {
    constexpr uint64_t kOverlap = 64;  // longer than what is looked for
    std::string text;
    for (uint64_t at = begin; at < end; at += kPage) {
      if (!Touched(at)) {
        text.clear();
        continue;
      }
      const size_t kept = std::min<size_t>(text.size(), kOverlap);
      text.erase(0, text.size() - kept);
      text.resize(kept + kPage);
      const ssize_t got =
          pread(bytes_, &text[kept], kPage, static_cast<off_t>(at));
      text.resize(kept + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (HasNeedle(text)) return true;
    }
    return false;
  }

 private:
  static int Open(pid_t pid, const char* name) {
    const int fd = open(absl::StrCat("/proc/", pid, "/", name).c_str(),
                        O_RDONLY | O_CLOEXEC);
    EXPECT_GE(fd, 0) << name;
    return fd;
  }

  // It is in memory or on the swap device.
  bool Touched(uint64_t at) const {
    uint64_t entry = 0;
    const auto place = static_cast<off_t>(at / kPage * sizeof(entry));
    return pread(pages_, &entry, sizeof(entry), place) == sizeof(entry) &&
           (entry >> 62) != 0;
  }

  const uint64_t kPage = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const int bytes_;
  const int pages_;
};

struct Found {
  std::vector<std::string> dumped;  // mappings that a core file has
  int left_out = 0;                 // and others
};

Found LookForIt(pid_t pid) {
  Found found;
  const Memory memory(pid);
  const std::string maps = ProcText(pid, "smaps");
  absl::string_view mapping;
  uint64_t begin = 0;
  uint64_t end = 0;
  char access = '-';
  for (absl::string_view line : absl::StrSplit(maps, '\n')) {
    uint64_t first = 0;
    uint64_t last = 0;
    char readable = '-';
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx %c", &first, &last,
                    &readable) == 3) {
      mapping = line;
      begin = first;
      end = last;
      access = readable;
    }
    if (!absl::StartsWith(line, "VmFlags:") || access != 'r') continue;
    const bool left_out = absl::StrContains(line, " dd");
    if (left_out && end - begin > kMostLeftOut) continue;
    if (!memory.Has(begin, end)) continue;
    if (left_out) {
      ++found.left_out;
    } else {
      found.dumped.emplace_back(mapping);
    }
  }
  return found;
}

void ExpectHidden(pid_t pid) {
  SCOPED_TRACE(ProcText(pid, "cmdline"));
  // What the kernel shows of its arguments and its environment.
  for (const char* name : {"cmdline", "environ"}) {
    EXPECT_FALSE(HasNeedle(ProcText(pid, name))) << name;
  }
  const Found found = LookForIt(pid);
  EXPECT_TRUE(found.dumped.empty()) << found.dumped.front();
  EXPECT_GT(found.left_out, 0) << "it was not looked for well";
}

void ExpectInNoFile(const std::string& folder) {
  for (const std::string& name : ListNames(folder)) {
    const std::string path = JoinPath(folder, name);
    struct stat info;
    ASSERT_EQ(lstat(path.c_str(), &info), 0) << path;
    if (S_ISDIR(info.st_mode)) ExpectInNoFile(path);
    if (!S_ISREG(info.st_mode) || name == "secret") continue;
    EXPECT_FALSE(HasNeedle(ReadText(path))) << path;
  }
}

class SecretTest : public ::testing::Test {
 protected:
  SecretTest() : job_("secret", Mlp()) {
    WriteText(file(), kSecret);
    EXPECT_EQ(chmod(file().c_str(), 0600), 0);
  }

  std::string file() const { return job_.File("secret"); }
  std::vector<std::string> Args(std::vector<std::string> args) const {
    args.push_back(job_.path());
    for (const std::string& set : kEndless) {
      args.insert(args.end(), {"--set", set});
    }
    args.insert(args.end(), {"--transport", "grpc"});
    return args;
  }

  TestJob job_;
};

// It comes to the launcher by a file, to the ranks by a descriptor.
TEST_F(SecretTest, OfRanksThatWeftRunStarts) {
  Process launcher = job_.Weft(
      Args({"run", "--nproc-per-node", "2", "--secret-file", file()}));
  AwaitMetrics(job_, &launcher, 5);
  std::vector<pid_t> all = ChildrenOf(launcher.pid());
  ASSERT_EQ(all.size(), 2u);
  all.push_back(launcher.pid());
  for (pid_t pid : all) ExpectHidden(pid);
  launcher.Signal(SIGKILL);  // and so its ranks
  launcher.Wait();
  ExpectInNoFile(job_.folder());
}

// It comes to rank 0 by a file, to rank 1 by the meeting point.
TEST_F(SecretTest, OfRanksThatMeetByName) {
  const std::string name = UniqueName("secret-test");
  std::vector<Process> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.push_back(job_.Weft(Args({"train"}),
                              {{"OMPI_COMM_WORLD_RANK", absl::StrCat(r)},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", absl::StrCat(r)},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"PMIX_NAMESPACE", name},
                               {"WEFT_SECRET_FILE", r == 0 ? file() : ""}}));
  }
  AwaitMetrics(job_, &ranks[0], 5);
  for (Process& rank : ranks) ExpectHidden(rank.pid());
  for (Process& rank : ranks) rank.Signal(SIGKILL);
  for (Process& rank : ranks) rank.Wait();
  ExpectInNoFile(job_.folder());
}

}  // namespace
}  // namespace weft::e2e
