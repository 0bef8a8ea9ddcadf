# %% I look at the fares.
print(titanic["Fare"].describe())

# %% Skewness by pandas, as asked.
print(f"@fare_skewness[{titanic['Fare'].skew():.2f}]")
