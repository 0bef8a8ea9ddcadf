# %% The title stands before the first dot.
title = titanic["Name"].str.extract(r",\s*([^.]+\.)")[0].str.strip()
print(title.value_counts())

# %% Four of them count.
wanted = ["Mr", "Mrs", "Miss", "Master"]
fares = titanic["Fare"].groupby(title).mean()
print(", ".join(f"@average_fare_{name}[{fares[name + '.']:.2f}]" for name in wanted))
