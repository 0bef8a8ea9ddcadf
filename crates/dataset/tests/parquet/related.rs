//! Keys and relationships of Parquet files, beside those of the same rows as CSV.

use super::describe;

fn without_endings(text: &str) -> String {
    text.replace(".parquet", "").replace(".csv", "")
}

#[test]
fn keys_relationships_and_near_misses_are_those_of_the_same_rows_as_csv() {
    let names = ["customers", "orders", "events", "refunds"];
    let [parquet, csv] = ["parquet", "csv"].map(|ending| {
        let names = names.map(|name| format!("{name}.{ending}"));
        let description = describe(&names.each_ref().map(String::as_str));
        let keys: Vec<_> = description.datasets.iter().map(|dataset| &dataset.keys).collect();
        let all = serde_json::json!({
            "keys": keys,
            "relationships": description.relationships,
            "near_misses": description.near_misses,
            "as_of": description.as_of,
        });
        without_endings(&serde_json::to_string_pretty(&all).unwrap())
    });
    assert_eq!(parquet, csv);
    for found in ["\"customer_id\"", "\"step_id\"", "\"relationships\": [\n    {", "\"case\""] {
        assert!(parquet.contains(found), "{found}: {parquet}");
    }
}

/// Enums, quantiles, samples, means: all that is said of a column of either kind.
#[test]
fn columns_are_told_as_those_of_the_same_rows_as_csv() {
    for name in ["customers", "orders", "events", "refunds"] {
        let [parquet, csv] = ["parquet", "csv"].map(|ending| {
            let mut description = describe(&[&format!("{name}.{ending}")]);
            for field in &mut description.datasets[0].root.fields {
                // Decimals are written with the zeros at their end, and not so by polars' CSV.
                field.samples.clear();
            }
            serde_json::to_value(&description.datasets[0].root.fields).unwrap()
        });
        for (parquet, csv) in parquet.as_array().unwrap().iter().zip(csv.as_array().unwrap()) {
            let mut parquet = parquet.clone();
            parquet.as_object_mut().unwrap().remove("stored_as");
            assert_eq!(parquet, *csv, "{name}");
        }
    }
}
