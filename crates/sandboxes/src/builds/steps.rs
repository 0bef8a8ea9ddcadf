//! What a build is told to do.

use crate::problem::Problem;

/// A whole build.
#[derive(Debug, Clone)]
pub struct Instructions {
    pub base: Base,
    /// Takes no layer of an earlier build.
    pub force: bool,
    pub steps: Vec<Step>,
    /// What runs from the start of each sandbox, and what tells that it is ready.
    pub start: Option<String>,
    pub ready: Option<String>,
}

impl Instructions {
    /// Returns true if a step runs code of the tenant's and keeps what it writes.
    pub(super) fn has_commands(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Run { .. }))
    }
}

/// What the first step stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// A container image, by name; it stands for a template.
    Image(String),
    Template(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub action: Action,
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Copy {
        source: String,
        target: String,
        owner: Option<String>,
        mode: Option<u32>,
        /// The upload that holds the files.
        files: String,
    },
    Run {
        command: String,
        user: Option<String>,
    },
    Env(Vec<(String, String)>),
    Workdir(String),
    User(String),
}

pub(super) const MOST_STEPS: usize = 200;
const LONGEST_ARGUMENT: usize = 128 << 10;

impl Action {
    /// Reads a step as it comes: a word and its arguments.
    pub fn parse(kind: &str, args: &[String], files: Option<&str>) -> Result<Self, Problem> {
        let kind = kind.to_ascii_uppercase();
        let wrong = |what: &str| Problem::invalid(format!("{kind} {what}"));
        if args.iter().any(|arg| arg.len() > LONGEST_ARGUMENT || arg.contains('\0')) {
            return Err(wrong("has an argument that is too long or contains a NUL byte"));
        }
        let given = |index: usize| args.get(index).filter(|arg| !arg.is_empty()).cloned();
        match kind.as_str() {
            "COPY" => {
                let needed = || wrong("needs a source and a target");
                let mode = given(3).map(|mode| {
                    let bits = u32::from_str_radix(&mode, 8).ok().filter(|bits| *bits <= 0o7777);
                    bits.ok_or_else(|| wrong("has permissions that are not octal"))
                });
                Ok(Self::Copy {
                    source: given(0).ok_or_else(needed)?,
                    target: given(1).ok_or_else(needed)?,
                    owner: given(2),
                    mode: mode.transpose()?,
                    files: files.map(str::to_owned).ok_or_else(|| wrong("needs filesHash"))?,
                })
            }
            "RUN" => {
                let command = given(0).ok_or_else(|| wrong("needs a command"))?;
                Ok(Self::Run { command, user: given(1) })
            }
            "ENV" => {
                let (pairs, rest) = args.as_chunks::<2>();
                if pairs.is_empty() || !rest.is_empty() {
                    return Err(wrong("needs names and values in pairs"));
                }
                let variables = pairs.iter().map(|[name, value]| (name.clone(), value.clone()));
                let variables: Vec<_> = variables.collect();
                crate::create::check_env(&variables.iter().cloned().collect())?;
                Ok(Self::Env(variables))
            }
            "WORKDIR" => Ok(Self::Workdir(given(0).ok_or_else(|| wrong("needs a directory"))?)),
            "USER" => Ok(Self::User(given(0).ok_or_else(|| wrong("needs a name"))?)),
            _ => Err(Problem::invalid(format!("unknown step `{kind}`"))
                .hint("use COPY, RUN, ENV, WORKDIR or USER")),
        }
    }

    /// The step as it is shown in the log.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Copy { source, target, .. } => format!("COPY {source} {target}"),
            Self::Run { command, .. } => format!("RUN {command}"),
            Self::Env(variables) => {
                // Values may be secrets.
                let names: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).collect();
                format!("ENV {}", names.join(" "))
            }
            Self::Workdir(directory) => format!("WORKDIR {directory}"),
            Self::User(user) => format!("USER {user}"),
        }
    }
}

/// Puts values in the place of `$NAME` and `${NAME}`. What is not set is empty,
/// as in a shell; everything else stands for itself.
pub(super) fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let braced = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, after) = match braced {
            Some((name, after)) => (name, after),
            None => rest.split_at(rest.find(|c| !plain(c)).unwrap_or(rest.len())),
        };
        let is_name = name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit());
        if is_name {
            expanded.push_str(&value(name).unwrap_or_default());
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, args: &[&str]) -> Result<Action, Problem> {
        let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
        Action::parse(kind, &args, Some("hash"))
    }

    #[test]
    fn steps_are_read_and_wrong_ones_refused() {
        let copied = parse("COPY", &["a/*", "/b/", "", "0755"]).unwrap();
        let Action::Copy { owner, mode, .. } = copied else { panic!("{copied:?}") };
        assert_eq!((owner, mode), (None, Some(0o755)));
        let ran = parse("run", &["ls", ""]).unwrap();
        assert_eq!(ran, Action::Run { command: "ls".into(), user: None });
        assert!(parse("ENV", &["A", "1", "B"]).is_err());
        assert!(parse("ENV", &["A=B", "1"]).is_err());
        assert!(parse("COPY", &["a"]).is_err());
        assert!(parse("COPY", &["a", "b", "", "rwx"]).is_err());
        assert!(parse("RUN", &["a\0b"]).is_err());
        assert!(parse("ENTRYPOINT", &["x"]).is_err());
        assert!(Action::parse("COPY", &["a".into(), "b".into()], None).is_err());
    }

    #[test]
    fn variables_stand_for_their_values_and_nothing_is_run() {
        let value = |name: &str| (name == "A_1").then(|| "x".to_owned());
        let cases = [
            ("$A_1:$A_1/b", "x:x/b"),
            ("${A_1}y", "xy"),
            ("$B", ""),
            ("$(id) `id` $ 5$", "$(id) `id` $ 5$"),
            ("$1 ${A_1", "$1 ${A_1"),
        ];
        for (text, want) in cases {
            assert_eq!(expand(text, value), want, "{text}");
        }
    }
}
