# %% I look at the top of the list.
print(data_2015.nlargest(3, "Happiness Score")[["Country", "Happiness Score"]])

# %% Every country that reaches the maximum.
best = data_2015.loc[data_2015["Happiness Score"] == data_2015["Happiness Score"].max(), "Country"]
print(f"@country_with_highest_score[{', '.join(best)}]")
