#!/usr/bin/env python3
"""Print how fast one and two threads are, on a quiet machine and beside a process that keeps one core busy.

    cmake --preset bench && cmake --build --preset bench --target phasor_busy
    benchmarks/busy.py before=OTHER_CLONE/build/bench/benchmarks/phasor_busy after=build/bench/benchmarks/phasor_busy

Programs, one or more, run alternately. A time is the median of the rounds, in milliseconds.
"""
import argparse
import statistics
import subprocess

WAYS = ("quiet, 1 thread", "quiet, 2 threads", "busy, 1 thread", "busy, 2 threads")


def times_of(program):
    """The four times of each case."""
    lines = subprocess.run([program, "1"], check=True, capture_output=True, text=True).stdout.splitlines()
    return {case: [float(time) for time in times] for case, *times in (line.split("\t") for line in lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    programs = dict(each.split("=", 1) for each in options.programs)
    turns = [{name: times_of(program) for name, program in programs.items()} for _ in range(options.turns)]

    print(f"| case, ms | {' | '.join(WAYS)} |\n|---|{'---|' * len(WAYS)}")
    for case in turns[0][next(iter(programs))]:
        for name in programs:
            times = zip(*(turn[name][case] for turn in turns))
            print(f"| {case}, {name} | {' | '.join(f'{statistics.median(each):.1f}' for each in times)} |")


if __name__ == "__main__":
    main()
