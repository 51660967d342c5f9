#include "tools/weft/prepare.h"

#include "gtest/gtest.h"
#include "runtime/pool/cores.h"

namespace weft {
namespace {

TEST(MaxWorkersTest, OneWhereARankHasOneCore) {
  for (const auto& [cores, ranks] :
       {std::pair(1, 1), std::pair(2, 2), std::pair(3, 2), std::pair(2, 4)}) {
    EXPECT_EQ(MaxWorkers(cores, ranks), 1u) << cores << " / " << ranks;
  }
  EXPECT_EQ(MaxWorkers(2, 1), 0u);
  EXPECT_EQ(MaxWorkers(4, 2), 0u);
}

TEST(SessionOptionsTest, CoresAreSharedByTheRanksOnThem) {
  const uint32_t cores = runtime::AvailableCores(RealOs());
  for (uint32_t ranks : {1u, cores}) {
    TrainOptions options;
    options.link.ranks_on_cores = ranks;
    const runtime::SessionOptions session =
        SessionOptionsOf(options, Prepared());
    EXPECT_EQ(session.ranks_on_cores, ranks);
    EXPECT_EQ(session.max_workers, MaxWorkers(cores, ranks));
  }
}

}  // namespace
}  // namespace weft
