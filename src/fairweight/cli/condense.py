"""fairweight condense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fairweight.cli import _options as opt


def condense(
    run: opt.Run,
    drop: Annotated[str, opt.flag("How much to drop: 10%, 0.1, or a number of samples.")] = "10%",
    rule: Annotated[str, opt.flag("N1 (the paper's) to N5, DRoP, or a name; docs/audit.md has all.")] = "weighted-loss",
    floor: Annotated[int, opt.flag("Samples of each cell that stay.", at_least=0)] = 10,
    retrain: Annotated[bool, opt.flag("Train on what is kept, beside random sets.", "--retrain")] = False,
    seeds: Annotated[int, opt.flag("Trainings of each set.", at_least=1)] = 5,
    out: Annotated[Path | None, opt.flag("Output folder; default: one inside the run's.")] = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    device: opt.Device = "cpu",
    data_dir: opt.DataDir = None,
    network: opt.Network = None,
    trust_code: opt.TrustCode = False,
    json: opt.Json = False,
) -> None:
    """Drop the samples that count least, and write the rest; --retrain compares it with random sets of its size."""
    from fairweight.apps.condense import condense_run
    from fairweight.apps.condense import retrain as train_again
    from fairweight.runs.folder import RunFolder
    from fairweight.runs.own_model import with_trusted_network

    opt.quiet()
    opt.introduce(run, source=retrain)
    if retrain:
        with_trusted_network(RunFolder(run), network, trust_code)  # before anything is written
    written = condense_run(run, drop, rule, floor, out, seed=seed)
    opt.hold(written.out)
    if not json:
        print(written.text())
    values, text = written.to_dict(), ""
    if retrain:
        trainings = opt.trainings(seeds, seed, jobs, device, data_dir)
        result = train_again(written, trainings, network=network, trust_code=trust_code)
        values |= result.to_dict()
        text = result.text()
    if json or retrain:
        opt.show(values, text, json)
