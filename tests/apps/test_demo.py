"""The demo: plain uses of the exemplars stand beside FORML."""

from pathlib import Path

from fairweight.apps import demo


def test_rows_begin_where_they_say(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "EPOCHS", 1)
    monkeypatch.setattr(demo, "MANY", 1)
    lines = []
    found = demo.demo(tmp_path, seeds=1, tell=lines.append)
    assert list(found["rows"]) == list(demo.ROWS)
    assert lines[0].startswith("[ 1/6] Uniform, clean labels, seed 0: trained, accuracy ")
    assert Path(found["picture"]).is_file()
    ours, tuned = (found["rows"][name]["accuracy"]["mean"] for name in (demo.OURS, demo.TUNED))
    assert found["beside_fine_tuned"]["mean"] == ours - tuned
    table, said = demo.text_of(found).split("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    assert "fine-tuning on them" in said
    sizes = {name: (Path(paths[0]) / "weights.parquet").stat().st_size for name, paths in found["folders"].items()}
    assert sizes["Exemplars only"] < sizes["Uniform"] < sizes["Uniform with the exemplars added"]
