# %% I look at the two columns.
columns = ["Economy (GDP per Capita)", "Health (Life Expectancy)"]
print(data_2015[columns].describe())

# %% A line through them.
from scipy import stats

line = stats.linregress(data_2015[columns[0]], data_2015[columns[1]])
determination = line.rvalue**2
print(line)

# %% The answer.
fit = "good fit" if determination >= 0.7 else "poor fit"
print(f"@coefficient_determination[{determination:.2f}], @model_fit[{fit}]")
