// How the result of a product of matrices is cut into blocks, each one call of
// oneDNN in one thread. By shapes alone, so that threads change no bit; the
// inner dimension is never cut.
//
//   const Grid grid(lead, rows, columns, k);
//   for (int64_t i = 0; i < rows; i += grid.rows) ...
#ifndef WEFT_DEVICES_CPU_PRODUCT_GRID_H_
#define WEFT_DEVICES_CPU_PRODUCT_GRID_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// A block of the result that is worth a thread of its own: some 100 us. Few
// blocks are large, as each packs its operands again.
inline constexpr double kBlockFlops = 16e6;
inline constexpr double kLargeBlockFlops = 64e6;
inline constexpr int64_t kFewBlocks = 8;
inline constexpr int64_t kMaxBlocks = 64;
// Blocks are no narrower and no smaller than this, which keeps oneDNN's inner
// loops full; those of large products no narrower than that.
inline constexpr int64_t kMinExtent = 64;
inline constexpr int64_t kMinArea = 128 * 64;
inline constexpr int64_t kLargeMinExtent = 192;
inline constexpr double kLargeFlops = 2e8;

struct Grid {
  int64_t lead, rows, columns;  // of a block

  Grid(int64_t all_lead, int64_t all_rows, int64_t all_columns, int64_t k)
      : lead(all_lead), rows(all_rows), columns(all_columns) {
    const double flops =
        2.0 * static_cast<double>(all_lead) * static_cast<double>(all_rows) *
        static_cast<double>(all_columns) * static_cast<double>(k);
    const double few = std::min<double>(kFewBlocks, flops / kBlockFlops);
    const double most =
        std::min<double>(kMaxBlocks, std::max(few, flops / kLargeBlockFlops));
    const int64_t least = flops < kLargeFlops ? kMinExtent : kLargeMinExtent;
    for (double blocks = 1; 2 * blocks <= most; blocks *= 2) {
      int64_t* cut = lead > 1 ? &lead : rows > columns ? &rows : &columns;
      if (cut == &lead) {
        lead = (lead + 1) / 2;
      } else if (*cut >= 2 * least && rows * columns >= 2 * kMinArea) {
        *cut = (*cut / 2 + 15) / 16 * 16;
      } else {
        break;
      }
    }
  }
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_PRODUCT_GRID_H_
