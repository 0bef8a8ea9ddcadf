#![doc = include_str!("../README.md")]

mod bottom;
mod column;
mod content;
mod csv;
mod date;
mod describe;
mod estimate;
mod hash;
mod hll;
mod json;
mod limits;
mod meaning;
mod number;
mod parquet;
mod problem;
mod quantile;
mod read;
mod relate;
mod render;
mod summarize;
mod svg;
mod tree;
mod variables;
mod window;
mod work;
pub mod worker;

pub use csv::Dialect;
pub use describe::*;
pub use problem::{Problem, What};
pub use read::ReadError;
pub use relate::*;
pub use variables::variables;
pub use work::{Input, Options, describe};
