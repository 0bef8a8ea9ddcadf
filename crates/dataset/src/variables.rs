//! What datasets are called in code.

use std::collections::HashSet;

/// Longer names are cut.
const LONGEST: usize = 64;

/// For each file a name that Python and JavaScript take, each different: that of the
/// file without its ending, and with it where two files would have the same.
pub fn variables<'n>(files: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let files: Vec<&str> = files.into_iter().map(last).collect();
    let short: Vec<String> = files.iter().map(|file| word(stem(file))).collect();
    let is_one = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let mut taken: HashSet<String> = short.iter().filter(|name| is_one(name)).cloned().collect();
    let mut variables = Vec::new();
    for (file, short) in files.iter().zip(&short) {
        if is_one(short) {
            variables.push(short.clone());
            continue;
        }
        let whole = word(file);
        let mut name = whole.clone();
        let mut copy = 2;
        while !taken.insert(name.clone()) {
            name = format!("{whole}_{copy}");
            copy += 1;
        }
        variables.push(name);
    }
    variables
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// Plain letters only: Python takes others, and not all of them for the same name
/// that they were written as. A name like `_2` is an earlier answer's in IPython.
fn word(text: &str) -> String {
    let mut word = String::new();
    for letter in text.chars() {
        let is_plain = letter.is_ascii_alphanumeric() || letter == '_';
        if is_plain {
            word.push(letter);
        } else if !word.ends_with('_') {
            word.push('_');
        }
    }
    word.truncate(LONGEST);
    let word = word.trim_end_matches('_');
    let bare = word.trim_start_matches('_');
    match bare.chars().next() {
        None => "data".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("data_{bare}"),
        Some(_) if RESERVED.contains(&word) => format!("data_{word}"),
        Some(_) => word.to_owned(),
    }
}

/// Words of Python and JavaScript that a file could be called, functions and modules
/// that every analysis uses, and what loads the datasets.
const RESERVED: [&str; 86] = [
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "console",
    "const",
    "continue",
    "debugger",
    "def",
    "default",
    "del",
    "delete",
    "dict",
    "do",
    "elif",
    "else",
    "enum",
    "except",
    "export",
    "extends",
    "false",
    "filter",
    "finally",
    "float",
    "for",
    "from",
    "function",
    "global",
    "if",
    "import",
    "in",
    "input",
    "instanceof",
    "int",
    "is",
    "lambda",
    "len",
    "let",
    "list",
    "load_data",
    "map",
    "max",
    "min",
    "new",
    "nonlocal",
    "not",
    "np",
    "null",
    "open",
    "or",
    "pass",
    "pd",
    "plt",
    "print",
    "process",
    "raise",
    "range",
    "require",
    "return",
    "set",
    "sorted",
    "static",
    "str",
    "sum",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_variables() {
        for (name, want) in [
            ("deals.json", "deals"),
            ("tables/Deals.json", "Deals"),
            ("2015.csv", "data_2015"),
            ("_2.csv", "data_2"),
            ("beauty and the labor market.csv", "beauty_and_the_labor_market"),
            ("DES=+2006261.csv", "DES_2006261"),
            ("imp.score.ldlr.csv", "imp_score_ldlr"),
            ("class.json", "data_class"),
            ("load_data.csv", "data_load_data"),
            ("m².csv", "m"),
            ("日本.csv", "data"),
            (".csv", "data"),
            ("", "data"),
        ] {
            assert_eq!(variables([name]), [want], "{name}");
        }
        assert_eq!(variables([&*"x".repeat(100)])[0].len(), LONGEST);
    }

    #[test]
    fn no_two_are_the_same() {
        let all = ["sales.csv", "sales.json", "deals.csv"];
        assert_eq!(variables(all), ["sales_csv", "sales_json", "deals"]);
        // The name that is a file's own stays its own.
        let all = ["sales.csv", "sales.json", "sales_csv.parquet"];
        assert_eq!(variables(all), ["sales_csv_2", "sales_json", "sales_csv"]);
        let all = ["a b.csv", "a_b.csv", "a-b.csv"];
        assert_eq!(variables(all), ["a_b_csv", "a_b_csv_2", "a_b_csv_3"]);
    }
}
