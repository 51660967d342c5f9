#include <iostream>
#include <string>
#include <vector>

#include "tools/weft_opt/weft_opt.h"

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  return weft::WeftOpt(args, std::cin, std::cout, std::cerr);
}
