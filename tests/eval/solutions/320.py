# %% I look at the column.
print(data_0020200722["EVENTMSGTYPE"].describe())

# %% The mean over what is there, to two decimal places.
print(f"@mean_eventmsgtype[{data_0020200722['EVENTMSGTYPE'].dropna().mean():.2f}]")
