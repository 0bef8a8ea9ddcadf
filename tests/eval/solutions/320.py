# %% I look at the column.
print(_0020200722["EVENTMSGTYPE"].describe())

# %% The mean over what is there, to two decimal places.
print(f"@mean_eventmsgtype[{_0020200722['EVENTMSGTYPE'].dropna().mean():.2f}]")
