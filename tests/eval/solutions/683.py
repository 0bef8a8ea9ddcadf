# %% I look at the temperatures first.
print(ravenna_250715["temp"].describe())

# %% No value is missing, so the mean is over all rows.
mean = ravenna_250715["temp"].mean()
print(f"@mean_temperature[{mean:.2f}]")
