import torch
from sklearn.datasets import load_digits

import fairweight as fw

x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
train, held, test = (fw.Batch(x[k].float() / 16, y[k]) for k in torch.randperm(len(y)).split([1100, 300, 397]))

model = fw.MLP(64, 10)  # or any nn.Module that returns logits
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
forml = fw.FORML(model, num_samples=len(train), objective=fw.MeanLoss() + fw.MaxLossDiscrepancy())
for _ in range(10):
    for rows in torch.randperm(len(train)).split(64):
        exemplar = held.take(torch.randperm(len(held))[:100])  # drawn here at random; fw.ExemplarSampler draws by cell
        forml.step(train.take(rows), exemplar, optimizer)  # finds the weights, then steps the optimizer
print(fw.group_table(test.labels, fw.predict(model, test)))  # accuracy, TPRD, maxFNR, each with an interval
print(forml.weights().topk(5))  # what the samples turned out to be worth, mean 1
