"""FormlTrainer on short texts with a small BERT: `torchrun --nproc-per-node 2 examples/transformers_trainer.py`."""

import random
from typing import Any

from transformers import BertConfig, BertForSequenceClassification, TrainingArguments, set_seed

import fairweight as fw
from fairweight.integrations.transformers import FormlTrainer

GOOD, BAD = ["fine", "lovely", "great", "superb", "warm"], ["dull", "poor", "awful", "cold", "weak"]
WHO, WHAT = [["he", "his", "him"], ["she", "her", "hers"]], ["film", "book", "meal", "song", "plot"]
WORDS = ["[PAD]", "[CLS]", *GOOD, *BAD, *WHO[0], *WHO[1], *WHAT]


def texts(number: int, seed: int) -> list[dict[str, Any]]:
    draw, made = random.Random(seed), []  # noqa: S311
    for _ in range(number):
        label, group = draw.random() < 0.5, draw.random() < 0.3
        said = [draw.choice(GOOD if label != (draw.random() < (0.3 if group else 0.1)) else BAD) for _ in range(2)]
        ids = [WORDS.index(w) for w in ("[CLS]", draw.choice(WHO[group]), draw.choice(WHAT), *said)]
        made.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": int(label), "groups": int(group)})
    return made


def main(out: str = "runs/transformers", steps: int = 12, resume: bool = False, **more: Any) -> FormlTrainer:
    set_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    shape |= {"vocab_size": len(WORDS), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(**shape))
    kept = {"save_steps": 4, "logging_steps": 4, "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 0}
    args = TrainingArguments(out, max_steps=steps, learning_rate=1e-3, **(kept | more))
    parts = {"train_dataset": texts(256, 0), "exemplar_dataset": texts(64, 1), "eval_dataset": texts(128, 2)}
    trainer = FormlTrainer(model, args, **parts, objective=fw.MeanLoss() + fw.MaxLossDiscrepancy())
    trainer.train(resume_from_checkpoint=resume)
    return trainer


if __name__ == "__main__":
    print(main().evaluate())
