//! The command line of `belljar cells`.

use std::path::PathBuf;

use clap::Args;

use super::Sandbox;

/// Run a notebook, or a file of cells (`# %%`), in one stateful interpreter
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("template", |arg| arg.default_value("python-data")
    .help("Template to use: NAME or NAME@VERSION; it needs IPython, or Node.js for JavaScript")))]
#[command(mut_arg("time", |arg| arg.help("Wall-clock limit for each cell [default: 60s]")))]
#[command(mut_arg("cpu_time", |arg| arg.help("CPU-time limit for each cell [default: none]")))]
#[command(mut_arg("output_limit", |arg| arg.help("Output limit for each cell [default: 64M]")))]
pub(crate) struct Cells {
    /// Jupyter notebook (.ipynb), or file of cells: JavaScript if its name ends in .js, else Python
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// Write the notebook with its outputs to this file; it may be the notebook itself
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) save_notebook: Option<PathBuf>,
    /// Write every image that a cell shows to this directory, as cell-CELL-NUMBER.png
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) save_charts: Option<PathBuf>,
    /// Print JSON lines: outputs, rich results, errors and end reasons
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  belljar cells analysis.ipynb --in data.csv --save-notebook result.ipynb
  belljar cells plots.py --save-charts charts --memory 2G --time 5m

Example file:
  x = 1
  # %% checkpoint one        keep the state after this cell
  x += 1
  # %%
  x = 'changed'
  # %% at one                run this cell in a fork of that checkpoint
  print(x)";
