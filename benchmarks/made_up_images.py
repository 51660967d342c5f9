#!/usr/bin/python3
"""Writes images and labels without meaning, for timing: 3 x 32 x 32 bytes each.

    benchmarks/made_up_images.py DIRECTORY [count]

Gives DIRECTORY/images.gz and labels.gz in the format of examples/*.txtpb (IDX).
The same bytes every time.
"""
import gzip
import random
import struct
import sys


def write(path, dims, data):
    with gzip.open(path, "wb", compresslevel=1) as f:
        f.write(struct.pack(">BBBB%dI" % len(dims), 0, 0, 8, len(dims), *dims))
        f.write(data)


def main():
    directory = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    source = random.Random(1)
    write(directory + "/images.gz", (count, 3, 32, 32),
          source.randbytes(count * 3 * 32 * 32))
    write(directory + "/labels.gz", (count,),
          bytes(source.randrange(10) for _ in range(count)))


if __name__ == "__main__":
    main()
