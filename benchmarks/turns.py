#!/usr/bin/env python3
"""Compare the speed of this working tree with another revision: both run the same benchmarks alternately.

    make bench-turns BASE=v0.1 CASES='forward|decode'

builds both and runs this. The ratio of a case is the time of the base divided by the time of this tree, so more than 1 is
faster; each is the median of the rounds, and the spread is the range of the ratios of single rounds. The rounds alternate, so that
both revisions see the same minutes of a shared machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

# Cases that measure the machine, not phasor.
PROBES = "probe/"


def times_of(program, cases, seconds):
    """The median time of each case in one run of the program."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "times.json"
        subprocess.run(
            [program, f"--benchmark_filter={cases}", f"--benchmark_min_time={seconds}", "--benchmark_repetitions=3",
             f"--benchmark_out={out}", "--benchmark_out_format=json"], check=True, stdout=subprocess.DEVNULL)
        runs = json.loads(out.read_text())["benchmarks"]
    times = {}
    for run in runs:
        if run["run_type"] == "iteration" and not run["run_name"].startswith(PROBES):
            times.setdefault(run["run_name"], []).append(run["real_time"])
    return {case: statistics.median(each) for case, each in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="phasor_bench of the revision to compare with")
    parser.add_argument("changed", help="phasor_bench of this working tree")
    parser.add_argument("--cases", default=".", help="regular expression over the names of cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each repetition of a case")
    options = parser.parse_args()

    rounds = [[times_of(program, options.cases, options.seconds) for program in (options.base, options.changed)]
              for _ in range(options.rounds)]
    cases = [case for case in rounds[0][0] if all(case in times for pair in rounds for times in pair)]
    if not cases:
        parser.error(f"no case of both programs matches {options.cases}")
    ratios = {}
    for case in cases:
        base, changed = (statistics.median(pair[i][case] for pair in rounds) for i in (0, 1))
        single = [pair[0][case] / pair[1][case] for pair in rounds]
        ratios[case] = base / changed
        print(f"{case:<52} {ratios[case]:6.3f}  ({min(single):.3f} to {max(single):.3f})")
    print(f"{len(cases)} cases: median {statistics.median(ratios.values()):.3f}, lowest {min(ratios.values()):.3f}")


if __name__ == "__main__":
    main()
