import pandas as pd

sales = pd.DataFrame({"region": ["north", "south", "north"], "amount": [10, 20, 30]})
with open("note.txt", "w") as note:
    note.write("written before the checkpoint")
# %% checkpoint loaded
sales.groupby("region").amount.sum()
# %% the original goes on
sales.amount *= 1000
open("note.txt", "w").write("changed")
print(sales.amount.sum(), open("note.txt").read())
# %% at loaded
print(sales.amount.sum(), open("note.txt").read())
sales.amount += 1
# %% at loaded
print(sales.amount.sum(), "another copy")
# %%
print(sales.amount.sum(), "the original")
