//! Writes programs from templates.

use super::Task;
use super::words::{numbers, understand};
use crate::message::{CodeArtifact, Language, Plan};

/// The list of a request that has no numbers.
const EXAMPLE: &str = "4, 8, 15, 16, 23, 42, 7, 3, 19, 11";

const STATISTICS_PY: &str = r#"import statistics

def main():
    numbers = [{NUMBERS}]
    print(f"Mean   : {statistics.mean(numbers):.2f}")
    print(f"Median : {statistics.median(numbers):.2f}")
    print(f"Stdev  : {statistics.stdev(numbers):.2f}")

if __name__ == "__main__":
    main()
"#;

const STATISTICS_JS: &str = r#"const numbers = [{NUMBERS}];
const sorted = [...numbers].sort((a, b) => a - b);
const half = sorted.length / 2;
const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
const median = sorted.length % 2 ? sorted[Math.floor(half)] : (sorted[half - 1] + sorted[half]) / 2;
const spread = numbers.reduce((sum, n) => sum + (n - mean) ** 2, 0) / (numbers.length - 1);
console.log(`Mean   : ${mean.toFixed(2)}`);
console.log(`Median : ${median.toFixed(2)}`);
console.log(`Stdev  : ${Math.sqrt(spread).toFixed(2)}`);
"#;

const FIBONACCI_PY: &str =
    "a, b = 0, 1\nfor _ in range({COUNT}):\n    print(a)\n    a, b = b, a + b\n";
const FIBONACCI_JS: &str = "let [a, b] = [0, 1];\nfor (let i = 0; i < {COUNT}; i += 1) {\n  console.log(a);\n  [a, b] = [b, a + b];\n}\n";
const PRIMES_PY: &str =
    "print([n for n in range(2, 100) if all(n % d for d in range(2, int(n ** 0.5) + 1))])\n";
const PRIMES_JS: &str = "const primes = [];\nfor (let n = 2; n < 100; n += 1) {\n  if (primes.every((p) => n % p)) primes.push(n);\n}\nconsole.log(primes.join(' '));\n";
const FIRST_PRIMES_PY: &str = "primes = []\nn = 2\nwhile len(primes) < {COUNT}:\n    if all(n % p for p in primes):\n        primes.append(n)\n    n += 1\nprint(primes)\n";
const FIRST_PRIMES_JS: &str = "const primes = [];\nfor (let n = 2; primes.length < {COUNT}; n += 1) {\n  if (primes.every((p) => n % p)) primes.push(n);\n}\nconsole.log(primes.join(' '));\n";
const POLARS: &str =
    "import polars as pl\n\ndata = {\"score\": [90, 85, 78]}\ndf = pl.DataFrame(data)\nprint(df)\n";
const PANDAS: &str =
    "import pandas as pd\n\ndata = {\"score\": [90, 85, 78]}\ndf = pd.DataFrame(data)\nprint(df)\n";
const CHUNKS: &str =
    "const _ = require('lodash');\n\nconsole.log(JSON.stringify(_.chunk([1, 2, 3, 4, 5], 2)));\n";

/// Fills the template of a plan's task. The template of the sandbox may have the packages, so
/// nothing is installed before one is found missing.
pub fn code(plan: &Plan) -> Result<CodeArtifact, String> {
    let text = format!("{} {}", plan.task, plan.dependencies.join(" "));
    let task = Task::find(&text)
        .filter(|_| plan.inputs.is_empty())
        .ok_or("Fixed rules write code here, and they have no template for this plan.")?;
    understand(&plan.task, task)?;
    let numbers = numbers(&plan.task);
    let code = match (task, plan.language) {
        (Task::Statistics, Language::Python) => STATISTICS_PY,
        (Task::Statistics, Language::Javascript) => STATISTICS_JS,
        (Task::Fibonacci, Language::Python) => FIBONACCI_PY,
        (Task::Fibonacci, Language::Javascript) => FIBONACCI_JS,
        (Task::Primes, Language::Python) if numbers.is_empty() => PRIMES_PY,
        (Task::Primes, Language::Python) => FIRST_PRIMES_PY,
        (Task::Primes, Language::Javascript) if numbers.is_empty() => PRIMES_JS,
        (Task::Primes, Language::Javascript) => FIRST_PRIMES_JS,
        (Task::Frame("pandas"), _) => PANDAS,
        (Task::Frame(_), _) => POLARS,
        (Task::Chunks, _) => CHUNKS,
    };
    let list = if numbers.is_empty() { EXAMPLE.to_owned() } else { numbers.join(", ") };
    let count = numbers.first().map_or("20", String::as_str);
    let code = code.replace("{NUMBERS}", &list).replace("{COUNT}", count);
    let is_python = plan.language == Language::Python && task != Task::Chunks;
    let (filename, run_command) =
        if is_python { ("main.py", "python main.py") } else { ("main.js", "node main.js") };
    Ok(CodeArtifact {
        filename: filename.to_owned(),
        code,
        install_command: None,
        run_command: run_command.to_owned(),
        install_seconds: None,
        run_seconds: None,
        memory_bytes: None,
    })
}
