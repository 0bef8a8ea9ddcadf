# %% Every numerical column against the score.
r = data_2015.corr(numeric_only=True)["Happiness Score"].drop("Happiness Score")
print(r)

# %% The largest magnitude.
strongest = r.abs().idxmax()
kind = "positive" if r[strongest] > 0 else "negative"
print(f"@strongest_correlation_variable[{strongest}] @correlation_type[{kind}]")
