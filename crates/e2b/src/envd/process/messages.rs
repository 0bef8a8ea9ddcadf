//! What clients say about processes.

use std::collections::BTreeMap;

use belljar_sandboxes::ProcessInput;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::envd::connect::{Code, Error, bytes, number};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StartRequest {
    pub(super) process: Option<Config>,
    pub(super) pty: Option<Pty>,
    pub(super) tag: Option<String>,
    pub(super) stdin: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) cmd: String,
    pub(super) args: Vec<String>,
    pub(super) envs: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pty {
    pub(super) size: Size,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Size {
    #[serde(deserialize_with = "number")]
    pub(super) cols: u32,
    #[serde(deserialize_with = "number")]
    pub(super) rows: u32,
}

/// Also that of `CloseStdin`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConnectRequest {
    pub(super) process: Which,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    #[serde(deserialize_with = "some_number")]
    pub(super) pid: Option<u32>,
    pub(super) tag: Option<String>,
}

fn some_number<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    number(input).map(Some)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SendInputRequest {
    pub(super) process: Which,
    pub(super) input: Input,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Input {
    #[serde(deserialize_with = "bytes")]
    pub(super) stdin: Option<Vec<u8>>,
    #[serde(deserialize_with = "bytes")]
    pub(super) pty: Option<Vec<u8>>,
}

impl TryFrom<Input> for ProcessInput {
    type Error = Error;

    fn try_from(input: Input) -> Result<Self, Error> {
        match input {
            Input { pty: Some(bytes), .. } => Ok(Self::Terminal(bytes)),
            Input { stdin: Some(bytes), .. } => Ok(Self::Stdin(bytes)),
            Input { .. } => Err(Error::new(Code::Unimplemented, "input is for stdin or pty")),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamInputRequest {
    pub(super) start: Option<ConnectRequest>,
    pub(super) data: Option<StreamData>,
    pub(super) keepalive: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamData {
    pub(super) input: Input,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SendSignalRequest {
    pub(super) process: Which,
    pub(super) signal: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateRequest {
    pub(super) process: Which,
    pub(super) pty: Option<Pty>,
}
