//! A recipe's own default limits, in the units that people write.

use std::time::Duration;

use belljar_domain::Limits;
use belljar_domain::units::{parse_size, parse_time};
use serde::{Deserialize, Deserializer, Serialize};

/// Limits that a template sets; what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitDefaults {
    /// A size, such as `"2G"`.
    #[serde(deserialize_with = "size")]
    pub memory: Option<u64>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u32>,
    pub pids: Option<u32>,
    #[serde(deserialize_with = "size")]
    pub disk: Option<u64>,
    pub inodes: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub output: Option<u64>,
    /// A time, such as `"90s"`.
    #[serde(deserialize_with = "time")]
    pub wall: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub cpu: Option<Duration>,
    pub open_files: Option<u64>,
}

impl LimitDefaults {
    /// `limits`, with these values in their place.
    pub fn over(&self, limits: Limits) -> Limits {
        Limits {
            memory_bytes: self.memory.unwrap_or(limits.memory_bytes),
            cpu_millis: self.cpu_millis.unwrap_or(limits.cpu_millis),
            pids: self.pids.unwrap_or(limits.pids),
            disk_bytes: self.disk.unwrap_or(limits.disk_bytes),
            inodes: self.inodes.unwrap_or(limits.inodes),
            output_bytes: self.output.unwrap_or(limits.output_bytes),
            wall: self.wall.unwrap_or(limits.wall),
            cpu: self.cpu.or(limits.cpu),
            open_files: self.open_files.unwrap_or(limits.open_files),
        }
    }
}

/// People write `"2G"`; manifests hold the bytes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written<T> {
    Text(String),
    Value(T),
}

fn size<'de, D: Deserializer<'de>>(source: D) -> Result<Option<u64>, D::Error> {
    match Option::<Written<u64>>::deserialize(source)? {
        None => Ok(None),
        Some(Written::Value(bytes)) => Ok(Some(bytes)),
        Some(Written::Text(text)) => parse_size(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

fn time<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    match Option::<Written<Duration>>::deserialize(source)? {
        None => Ok(None),
        Some(Written::Value(time)) => Ok(Some(time)),
        Some(Written::Text(text)) => parse_time(&text).map(Some).map_err(serde::de::Error::custom),
    }
}
