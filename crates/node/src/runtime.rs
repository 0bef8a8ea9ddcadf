//! The programs that make an interpreter a context, as it receives them.

use std::ffi::CString;
use std::path::Path;

use belljar_guest_proto::context::{ToContext, field, frame};
use serde_json::{Map, Value, json};

/// The modules of the Python runtime: name and source.
const PYTHON: &[(&str, &str)] = include!(env!("BELLJAR_PYTHON"));
const PYTHON_BOOT: &str = include_str!("../../../runtimes/python/boot.py");
const JAVASCRIPT: &str = include_str!("../../../runtimes/javascript/context.js");
const JAVASCRIPT_BOOT: &str = include_str!("../../../runtimes/javascript/boot.js");
const JAVASCRIPT_DATASETS: &str = include_str!("../../../runtimes/javascript/datasets.js");
const BASH: &str = include_str!("../../../runtimes/bash/context.sh");
const BASH_BOOT: &str = include_str!("../../../runtimes/bash/boot.sh");
const R: &str = include_str!("../../../runtimes/r/context.R");
const R_BOOT: &str = include_str!("../../../runtimes/r/boot.R");
const JAVA: &str = include_str!("../../../runtimes/java/Context.java");
const JAVA_BOOT: &str = include_str!("../../../runtimes/java/boot.sh");

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
    Bash,
    R,
    Java,
}

impl Language {
    pub const ALL: [Self; 6] =
        [Self::Python, Self::JavaScript, Self::TypeScript, Self::Bash, Self::R, Self::Java];

    /// The language that people call so: `js` and `ts` are known, too.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        match name.as_str() {
            "js" => Some(Self::JavaScript),
            "ts" => Some(Self::TypeScript),
            _ => Self::ALL.into_iter().find(|language| language.as_str() == name),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Bash => "bash",
            Self::R => "r",
            Self::Java => "java",
        }
    }

    /// What a template calls the interpreter.
    pub fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript | Self::TypeScript => "node",
            Self::Bash => "bash",
            Self::R => "r",
            Self::Java => "java",
        }
    }

    /// What the interpreter is sent for `message`.
    pub(crate) fn encode(self, message: &ToContext<'_>) -> Vec<u8> {
        match self {
            Self::Python | Self::JavaScript | Self::TypeScript => message.encode(),
            Self::Bash => message.encode_fields(),
            Self::R | Self::Java => frame(&message.encode_fields()),
        }
    }

    /// The command that starts an interpreter as a context, and what it is sent
    /// first. A Python that is to be copied often runs `warm` before it is ready.
    pub(crate) fn boot(self, interpreter: &Path, warm: Option<&str>) -> (Vec<Vec<u8>>, Vec<u8>) {
        let interpreter = interpreter.as_os_str().as_encoded_bytes().to_vec();
        let json = |message: Value| frame(message.to_string().as_bytes());
        let (options, message) = match self {
            Self::Python => {
                let config = warm.map_or(json!({}), |warm| json!({"warm": warm}));
                (vec!["-c", PYTHON_BOOT], json(python("context", config)))
            }
            Self::JavaScript | Self::TypeScript => {
                let config = json!({"datasets": JAVASCRIPT_DATASETS});
                let message = json!({"source": JAVASCRIPT, "role": "context", "config": config});
                (vec!["-e", JAVASCRIPT_BOOT], json(message))
            }
            Self::Bash => (vec!["--noprofile", "--norc", "-c", BASH_BOOT], field(BASH).collect()),
            Self::R => {
                (vec!["--vanilla", "--no-echo", "-e", R_BOOT.trim_end()], frame(R.as_bytes()))
            }
            Self::Java => {
                // Java reads its programs from files only.
                let size = JAVA.len().to_string().into_bytes();
                let shell = ["/bin/sh", "-c", JAVA_BOOT, "sh"].map(Vec::from);
                let argv = shell.into_iter().chain([interpreter, size]).collect();
                return (argv, JAVA.into());
            }
        };
        let argv = [interpreter].into_iter().chain(options.into_iter().map(Vec::from)).collect();
        (argv, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_found_by_its_name_and_by_short_ones() {
        for language in Language::ALL {
            assert_eq!(Language::named(language.as_str()), Some(language));
        }
        assert_eq!(Language::named(" JS "), Some(Language::JavaScript));
        assert_eq!(Language::named("ts"), Some(Language::TypeScript));
        assert_eq!(Language::named("cobol"), None);
    }
}
