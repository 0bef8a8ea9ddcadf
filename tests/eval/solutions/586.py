# %% The names of the columns end with blanks, so I tidy them.
calls = data_20170413_000000_group_statistics.rename(columns=str.strip)
print(calls.columns.tolist())

# %% The sum over rows that say something.
total = calls["num. calls abandoned"].dropna().sum()
print(f"@total_abandoned_calls[{int(total)}]")
