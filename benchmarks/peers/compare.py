#!/usr/bin/env python3
"""Run phasor and other libraries on the same computations, alternating, and print how their times compare.

Run it with `make bench-peers`, which builds phasor's side (phasor_case), makes a virtual environment with the libraries
and writes the table into docs/performance.md. Each case: both sides get the same inputs, their results are compared
once, then they take turns for several rounds, so that what else the machine does meets both. Each turn is one call
unmeasured and then as many as fill TURN_SECONDS.
"""
import argparse, datetime, json, os, pathlib, platform, re, statistics, subprocess, sys, tempfile, time

import numpy as np
import onnxruntime
import torch

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources
import peak_memory
from cases import CASES

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/bench/benchmarks/phasor_case"
PAGE = ROOT / "docs/performance.md"
TURN_SECONDS = 0.3
REST_SECONDS = 0.05  # threads of the side before, which wait for more work by spinning, have gone to sleep by then
TOLERANCE = 1e-3     # of the largest value: float sums in another order, and W2 by differences of squares


class Failure(Exception):
    """Something to tell the user, without a stack trace."""


class Phasor:
    """The program phasor_case, which runs as long as this object is open."""
    name = "phasor"

    def __init__(self, program, threads):
        if not pathlib.Path(program).exists():
            raise Failure(f"{program} is not there: `make bench-peers` builds it")
        # A session of its own: Ctrl-C is for us. It ends by itself when its input does, that is, with us.
        self.program, self.threads = program, threads
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        self.greeting = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"phasor_case ended with code {self.process.wait()}")
        return json.loads(line)

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "error" in answer:
            raise Failure(f"phasor_case: {answer['error']}")
        return answer

    def open(self, case, inputs, folder):
        for name, array in inputs.items():
            array.tofile(f"{folder}/{name}.f32")
        self.tell(do="open", folder=folder, settings=case.settings())

    def seconds(self, calls):
        return self.tell(do="run", calls=calls)["seconds"]

    def results(self, folder):
        names = self.tell(do="save")["saved"]
        return {name: np.fromfile(f"{folder}/{name}.f32", np.float32) for name in names}

    def close(self):
        self.process.kill()
        self.process.wait()


class Peer:
    """A library, ready to run one case."""

    def __init__(self, peer, case, inputs):
        self.name, self.call = peer.name, peer.prepare(case, inputs)

    def seconds(self, calls):
        result = []
        for _ in range(calls):
            start = time.perf_counter()
            self.call()
            result.append(time.perf_counter() - start)
        return result

    def results(self, calls):
        """Of the last of so many calls."""
        for _ in range(calls - 1):
            self.call()
        return {name: np.asarray(value.detach() if hasattr(value, "detach") else value).reshape(-1)
                for name, value in self.call().items()}


class Progress:
    """A line on standard error: which case, and how long it will still take if turns go on as they did."""

    def __init__(self, turns):
        self.turns, self.done, self.start = turns, 0, time.monotonic()
        self.at_terminal = sys.stderr.isatty()

    def begin(self, case):
        if self.at_terminal:
            self.show(f"{case.name}: preparing")
        else:
            print(f"{case.name}{self.time_left()}", file=sys.stderr, flush=True)

    def turn(self, case, text):
        if self.at_terminal:
            self.show(f"{case.name}: {text}{self.time_left()}")
        self.done += 1

    def show(self, text):
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def time_left(self):
        if not self.done:
            return ""
        seconds = (time.monotonic() - self.start) / self.done * (self.turns - self.done)
        return f", about {seconds / 60:.0f} min left" if seconds > 90 else f", about {seconds:.0f} s left"

    def clear(self):
        if self.at_terminal:
            self.show("")


def peak_of_phasor(case, program, threads):
    """Bytes, in a process of its own, beyond what it has without a case."""
    phasor = Phasor(program, threads)
    try:
        before = phasor.tell(do="memory")["peak"]
        with tempfile.TemporaryDirectory(prefix="phasor-peers-") as folder:
            phasor.open(case, case.inputs(), folder)
        phasor.seconds(peak_memory.CALLS)
        return phasor.tell(do="memory")["peak"] - before
    finally:
        phasor.close()


def largest_difference(ours, theirs):
    """Over all results, relative to the largest value of each."""
    if ours.keys() != theirs.keys():
        raise Failure(f"results differ: {sorted(ours)} and {sorted(theirs)}")
    return max(float(np.abs(ours[name] - theirs[name]).max() / np.abs(theirs[name]).max()) for name in ours)


def check(case, phasor, peers, folder):
    """Peer name -> largest difference to phasor's results; None where dropout makes them random."""
    phasor.seconds(case.checked_call)
    if case.dropout:
        return {peer.name: None for peer in peers}
    ours = phasor.results(folder)
    return {peer.name: largest_difference(ours, peer.results(case.checked_call)) for peer in peers}


def calls_in_a_turn(side):
    side.seconds(1)
    return max(1, min(200, round(TURN_SECONDS / min(side.seconds(2)))))


def take_turns(case, sides, rounds, progress):
    """Side name -> seconds of all its measured calls. Every other round goes the other way."""
    calls = {side.name: calls_in_a_turn(side) for side in sides}
    seconds = {side.name: [] for side in sides}
    for i in range(rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:
            progress.turn(case, f"round {i + 1} of {rounds}, {side.name}")
            time.sleep(REST_SECONDS)
            side.seconds(1)
            seconds[side.name] += side.seconds(calls[side.name])
    return seconds


def measure(case, phasor, rounds, progress):
    """The rows of one case: dictionaries, one for each peer."""
    progress.begin(case)
    with tempfile.TemporaryDirectory(prefix="phasor-peers-") as folder:
        inputs = case.inputs()
        phasor.open(case, inputs, folder)
        peers = [Peer(peer, case, inputs) for peer in case.peers]
        differences = check(case, phasor, peers, folder)
    seconds = take_turns(case, [phasor, *peers], rounds, progress)
    return [{"case": case.name, "peer": peer.name, "ours": seconds["phasor"], "theirs": seconds[peer.name],
             "difference": differences[peer.name]} for peer in peers]


def measure_all(cases, phasor, rounds):
    """All rows, and what failed, a text each: one case that fails does not lose the others."""
    rows, failures = [], []
    progress = Progress(rounds * sum(1 + len(case.peers) for case in cases))
    for case in cases:
        try:
            rows += measure(case, phasor, rounds, progress)
        except (Failure, RuntimeError, ValueError, MemoryError) as error:
            failures.append(f"{case.name}: {error}")
            if phasor.process.poll() is not None:
                break
    progress.clear()
    for row in rows:
        if row["difference"] is not None and not row["difference"] <= TOLERANCE:  # NaN fails too
            failures.append(f"{row['case']}: results of phasor and {row['peer']} differ by {row['difference']:.1e}")
    return rows, failures


def measure_memory(cases, phasor):
    """(case name, side name) -> bytes, for the cases that train a model."""
    peaks = {}
    for case in cases:
        if not case.trains_model:
            continue
        peaks[case.name, phasor.name] = peak_of_phasor(case, phasor.program, phasor.threads)
        for peer in case.peers:
            peaks[case.name, peer.name] = peak_memory.of_peer(peer, case, phasor.threads)
    return peaks


def milliseconds(seconds):
    return f"{1e3 * min(seconds):.2f} ({1e3 * statistics.median(seconds):.2f})"


def ratio(row):
    medians = statistics.median(row["theirs"]) / statistics.median(row["ours"])
    return f"{min(row['theirs']) / min(row['ours']):.2f} ({medians:.2f})"


def table(lines):
    """Markdown, its columns padded so that it reads well as text. The first line is the head."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *texts[1:]])


def table_of_times(rows):
    lines = [["case", "phasor, ms", "peer", "its time, ms", "its / phasor's", "results differ by"]]
    for row in rows:
        difference = "random" if row["difference"] is None else f"{row['difference']:.0e}"
        lines.append([row["case"], milliseconds(row["ours"]), row["peer"], milliseconds(row["theirs"]), ratio(row),
                      difference])
    return table(lines)


def table_of_training(cases, rows, peaks):
    """Tokens and memory of the cases that train a model; nothing when there are none."""
    tokens = {case.name: case.batch * case.tokens for case in cases if case.trains_model}
    lines = [["case", "with", "tokens per second", "peak memory, MB"]]
    seconds = {}
    for row in rows:
        if row["case"] in tokens:
            seconds |= {(row["case"], "phasor"): row["ours"], (row["case"], row["peer"]): row["theirs"]}
    for (case, side), times in seconds.items():
        speed = f"{tokens[case] / min(times):.0f} ({tokens[case] / statistics.median(times):.0f})"
        lines.append([case, side, speed, f"{peaks[case, side] / 1e6:.0f}"])
    return f"\n\n{table(lines)}" if len(lines) > 1 else ""


def cpu_name():
    try:
        return re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def blas_name():
    """Of torch, from its own description: the library and its version."""
    text = torch.__config__.show()
    library = re.search(r"BLAS_INFO=(\w+)", text)
    version = re.search(r"Math Kernel Library Version (\S+?)-|OpenBLAS (\S+)", text)
    name = library[1].upper() if library else "unknown"
    return f"{name} {version[1] or version[2]}" if version else name


def setting(phasor, rounds):
    """Where and with what, a sentence or two."""
    return (f"{cpu_name()}, {phasor.greeting['threads']} threads, {datetime.date.today()}. phasor on "
            f"{phasor.greeting['simd_target']}; torch {torch.__version__.split('+')[0]} "
            f"({torch.backends.cpu.get_cpu_capability()}, BLAS: {blas_name()}); ONNX Runtime "
            f"{onnxruntime.__version__}.\nRounds: {rounds}. Times are best (median) of all calls; H8 where not said otherwise.")


def write_page(text, name, path=PAGE):
    """Between the page's two lines with this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text()
    if page.count(begin) != 1 or page.count(end) != 1:
        raise Failure(f"{path}: expected one line {begin} and one line {end}")
    before, rest = page.split(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--program", default=PROGRAM, help="phasor's side")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    if options.write and options.filter:
        parser.error("--write is for the whole table, not with --filter")
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads: expected 1 or more")
    return options


def chosen_cases(pattern):
    try:
        cases = [case for case in CASES if re.search(pattern, case.name)]
    except re.error as error:
        raise Failure(f"--filter={pattern}: {error}") from error
    if not cases:
        raise Failure("\n  ".join([f"--filter={pattern} matches none of", *(case.name for case in CASES)]))
    return cases


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    cases = chosen_cases(options.filter)
    phasor = Phasor(options.program, options.threads)
    try:
        rows, failures = measure_all(cases, phasor, options.rounds)
        text = (f"{setting(phasor, options.rounds)}\n\n{table_of_times(rows)}"
                f"{table_of_training(cases, rows, measure_memory(cases, phasor))}")
    finally:
        phasor.close()
    print(text)
    if failures:
        raise Failure("\n".join(failures))
    if options.write:
        write_page(text, "peers")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"compare.py: {failure}")
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
