"""FormlTrainer on rows of Adult in words: `torchrun --nproc-per-node 2 examples/transformers_trainer.py`."""

import os
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments, set_seed

import fairweight as fw
from fairweight.integrations.transformers import FormlTrainer


def texts(number: int) -> tuple[list[dict[str, Any]], int]:
    rows = pd.read_csv(Path(os.environ["FAIRWEIGHT_DATA"]) / "adult/adult.data", header=None, skipinitialspace=True)
    said = rows.assign(age=(rows[0] // 10).astype(str) + "0s")[["age", 1, 3, 5, 6]]  # work, school, married, job
    words = {word: k + 1 for k, word in enumerate(sorted({"[CLS]", *said.to_numpy().ravel()}))}
    ids = said.map(words.get).assign(first=words["[CLS]"])[["first", *said]].head(number).to_numpy().tolist()
    made = [{"input_ids": i, "attention_mask": [1] * len(i)} for i in ids]
    known = pd.DataFrame({"labels": rows[14] == ">50K", "groups": rows[9] == "Female"}).astype(int).to_dict("records")
    return [text | about for text, about in zip(made, known, strict=False)], len(words)


def main(out: str = "runs/transformers", steps: int = 12, resume: bool = False, **more: Any) -> FormlTrainer:
    (people, words), _ = texts(2000), set_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    shape |= {"vocab_size": words + 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(**shape))
    kept = {"save_steps": 4, "logging_steps": 4, "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 0}
    args = TrainingArguments(out, max_steps=steps, learning_rate=1e-3, **(kept | more))
    parts = {"train_dataset": people[:1000], "exemplar_dataset": people[1000:1400], "eval_dataset": people[1400:]}
    trainer = FormlTrainer(model, args, **parts, objective=fw.MeanLoss() + fw.MaxLossDiscrepancy())
    trainer.train(resume_from_checkpoint=resume)
    return trainer


if __name__ == "__main__":
    print((trainer := main()).evaluate())
    trainer.accelerator.wait_for_everyone()  # a rank that leaves while another still works may be aborted by torch
    trainer.accelerator.end_training()
