"""fairweight train."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from fairweight.cli import _options as opt
from fairweight.cli._flags import DATA_FLAGS, FAIRNESS, OUTPUT, SEARCH_FLAGS, TRAINING_FLAGS, options_given, takes
from fairweight.cli._parse import numbers
from fairweight.errors import BadInput

STRENGTHS, GIVE_UP = "0.1,0.3,1,3,10", 1.0


@takes([*DATA_FLAGS, *SEARCH_FLAGS, *TRAINING_FLAGS])
def train(
    source: opt.Source,
    label: opt.Label = None,
    group: opt.Group = None,
    data_dir: opt.DataDir = None,
    download: opt.Download = False,
    groups_at_prediction: Annotated[
        bool, opt.flag("Allow thresholds by group, which new rows must name.", "--groups-at-prediction", panel=FAIRNESS)
    ] = False,
    method: Annotated[str | None, opt.flag("Train only this; see `fairweight list methods`.", panel=FAIRNESS)] = None,
    trade_off: Annotated[
        bool, opt.flag("Train at several strengths; choose one on validation.", "--trade-off", panel=FAIRNESS)
    ] = False,
    strengths: Annotated[str, opt.flag("Strengths of --trade-off.", panel=FAIRNESS)] = STRENGTHS,
    give_up: Annotated[
        float, opt.flag("Points of validation accuracy --trade-off may give up.", panel=FAIRNESS)
    ] = GIVE_UP,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    out: Annotated[Path | None, opt.flag("Folder of the run; default: one under runs/.", panel=OUTPUT)] = None,
    fresh: opt.Fresh = False,
    no_baseline: opt.NoBaseline = False,
    json: opt.Json = False,
    **given: Any,
) -> None:
    """Train on a file, a folder or a named set: the best model, compared with plain training, and a weight per row."""
    started = time.monotonic()
    data, training, search = (options_given(flags, given) for flags in (DATA_FLAGS, TRAINING_FLAGS, SEARCH_FLAGS))
    if not 0 <= give_up <= 100:
        raise BadInput(f"--give-up {give_up:g}: give points of accuracy from 0 to 100, such as --give-up 1.")
    for flag, changed in (("--give-up", give_up != GIVE_UP), ("--strengths", strengths != STRENGTHS)):
        if changed and not trade_off:
            raise BadInput(f"{flag} is for --trade-off alone; add --trade-off, or leave it out.")
    sweep = numbers(strengths, "--strengths") if trade_off else None

    from fairweight.apps import _train_text as text
    from fairweight.apps import train as app
    from fairweight.apps.trade_off import strength_specs
    from fairweight.apps.trade_off import trade_off as run_sweep
    from fairweight.cli import _ranks as ranks
    from fairweight.cli import in_flags

    where = ranks.device_of_rank(opt.device_of(device))
    if method is None and (sweep is not None or no_baseline):
        method = "forml"  # a sweep is of one method, and without plain training there is nothing to judge by
    search["groups_at_prediction"] = groups_at_prediction
    request = app.TrainRequest(source, label, group, method, seed, data, training, **search)
    opt.show_log()
    watching = opt.epochs_shown(json)
    with ExitStack() as stack:
        all_ranks = stack.enter_context(ranks.together(where))
        prepared = app.prepare(request, device=where, data_dir=data_dir, download=download)
        if all_ranks is not None and prepared.request is not None:
            ranks.part(all_ranks, "one process compares candidates on a table; to train on all, name a --method.")
            all_ranks = None
        name = prepared.dataset.name.encode()[:100].decode(errors="ignore")  # a folder's name has 255 bytes
        folder = out or Path("runs") / f"{name}_{prepared.spec.title}_{prepared.spec.fingerprint[:6]}"
        folder = stack.enter_context(ranks.own_folder(all_ranks, folder))
        opt.hold(folder)
        if all_ranks is not None and prepared.spec.search:  # better run side by side
            raise BadInput("This method is found over many trainings, each by one process; run it without torchrun.")
        specs = None if sweep is None else strength_specs(prepared, sweep)  # refuses what cannot be swept
        opt.begin(prepared, folder, where, json, fresh=fresh, sweep=sweep is not None)
        if specs is None:
            prepared, tell = prepared.within(time.monotonic() - started), None if json else opt.candidate_shown
            result = app.train(prepared, folder, device=where, baseline=not no_baseline, watching=watching, tell=tell)
            values = result.to_dict()
        else:
            result, values = run_sweep(prepared, folder, specs, give_up, device=where, watching=watching)
            if not json:
                print(text.front(values))
        opt.show(values, text.closing(result, time.monotonic() - started, in_flags), json)
