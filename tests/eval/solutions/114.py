# %% I look at the top of the list.
print(_2015.nlargest(3, "Happiness Score")[["Country", "Happiness Score"]])

# %% Every country that reaches the maximum.
best = _2015.loc[_2015["Happiness Score"] == _2015["Happiness Score"].max(), "Country"]
print(f"@country_with_highest_score[{', '.join(best)}]")
