//! The programs that make an interpreter a context, as it receives them.

use std::ffi::CString;
use std::path::Path;

use belljar_guest_proto::context::frame;
use serde_json::{Map, Value, json};

/// The modules of the Python runtime: name and source.
const PYTHON: &[(&str, &str)] = include!(env!("BELLJAR_PYTHON"));
const PYTHON_BOOT: &str = include_str!("../../../runtimes/python/boot.py");
const JAVASCRIPT: &str = include_str!("../../../runtimes/javascript/context.js");
const JAVASCRIPT_BOOT: &str = include_str!("../../../runtimes/javascript/boot.js");

/// The library that forks, for zygotes.
pub(crate) static ZYGOTE: &[u8] = include_bytes!(env!("BELLJAR_ZYGOTE"));

/// Where a zygote finds it: the spawner puts it at descriptor 4.
const ZYGOTE_PATH: &str = "/proc/self/fd/4";

/// The language of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    Python,
    JavaScript,
    /// Runs in a JavaScript context, its types removed.
    TypeScript,
}

impl Language {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
        }
    }

    /// What a template calls the interpreter.
    pub fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript | Self::TypeScript => "node",
        }
    }

    /// The command that starts an interpreter as a context, and what it is sent
    /// first.
    pub(crate) fn boot(self, interpreter: &Path) -> (Vec<Vec<u8>>, Vec<u8>) {
        let interpreter = interpreter.as_os_str().as_encoded_bytes().to_vec();
        let (flag, boot, message) = match self {
            Self::Python => ("-c", PYTHON_BOOT, python("context", json!({}))),
            Self::JavaScript | Self::TypeScript => {
                let message = json!({"source": JAVASCRIPT, "role": "context", "config": {}});
                ("-e", JAVASCRIPT_BOOT, message)
            }
        };
        let argv = vec![interpreter, flag.into(), boot.into()];
        (argv, frame(message.to_string().as_bytes()))
    }
}

fn python(role: &str, config: Value) -> Value {
    let sources: Map<String, Value> =
        PYTHON.iter().map(|&(name, source)| (name.to_owned(), source.into())).collect();
    json!({"sources": sources, "role": role, "config": config})
}

/// The arguments of a Python zygote, and what it is sent first.
pub(crate) fn zygote(interpreter: &Path, warm: &str) -> Option<(Vec<CString>, Vec<u8>)> {
    let interpreter = CString::new(interpreter.as_os_str().as_encoded_bytes()).ok()?;
    let boot = CString::new(PYTHON_BOOT).ok()?;
    let config = json!({"warm": warm, "shim": ZYGOTE_PATH, "env": {}});
    let message = frame(python("zygote", config).to_string().as_bytes());
    Some((vec![interpreter, CString::from(c"-c"), boot], message))
}
