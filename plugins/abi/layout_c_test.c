#include "plugins/abi/layout_test.inc"

int main(void) { return 0; }
