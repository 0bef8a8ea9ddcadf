# %% I look at the two columns.
print(my_test_01[["HouseAge", "MedianHouseValue"]].describe())

# %% Pearson's r with its p-value.
from scipy import stats

r, p = stats.pearsonr(my_test_01["HouseAge"], my_test_01["MedianHouseValue"])
significant = "true" if p < 0.05 else "false"
print(f"@correlation_coefficient[{r:.2f}], @p_value[{p:.4f}], @significant_correlation[{significant}]")
