//! Languages: how a script shows which one it is in, and what runs it.

use std::path::{Path, PathBuf};

use belljar_template::{Template, host};

use crate::output::hinted;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    /// The first is what it is called here.
    names: &'static [&'static str],
    /// The first is used for a script without a name.
    pub(crate) extensions: &'static [&'static str],
    programs: &'static [&'static str],
    /// What makes the interpreter take code as an argument.
    pub(crate) code_flag: &'static str,
    /// What keeps the arguments after such code from the interpreter.
    pub(crate) before_args: &'static [&'static str],
}

const LANGUAGES: [Language; 9] = [
    Language {
        names: &["python", "python3", "py"],
        extensions: &["py", "pyw"],
        programs: &["python3", "python"],
        code_flag: "-c",
        before_args: &[],
    },
    Language {
        names: &["javascript", "node", "js"],
        extensions: &["js", "mjs", "cjs"],
        programs: &["node", "nodejs"],
        code_flag: "-e",
        before_args: &["--"],
    },
    Language {
        // Nearly every shell script that is not meant for bash runs in it.
        names: &["bash", "shell", "sh"],
        extensions: &["sh", "bash"],
        programs: &["bash", "sh"],
        code_flag: "-c",
        before_args: &["bash"],
    },
    Language {
        names: &["ruby", "rb"],
        extensions: &["rb"],
        programs: &["ruby"],
        code_flag: "-e",
        before_args: &["--"],
    },
    Language {
        names: &["perl", "pl"],
        extensions: &["pl"],
        programs: &["perl"],
        code_flag: "-e",
        before_args: &["--"],
    },
    Language {
        names: &["php"],
        extensions: &["php"],
        programs: &["php"],
        code_flag: "-r",
        before_args: &["--"],
    },
    Language {
        names: &["lua"],
        extensions: &["lua"],
        programs: &["lua", "lua5.4", "luajit"],
        code_flag: "-e",
        before_args: &[],
    },
    Language {
        names: &["r"],
        extensions: &["R", "r"],
        programs: &["Rscript"],
        code_flag: "-e",
        before_args: &[],
    },
    Language {
        names: &["julia", "jl"],
        extensions: &["jl"],
        programs: &["julia"],
        code_flag: "-e",
        before_args: &[],
    },
];

/// The directories of interpreters, without the leading slash.
const DIRECTORIES: [&str; 3] = ["usr/local/bin", "usr/bin", "bin"];

/// What `-c` means when nobody says.
pub(crate) fn default() -> &'static Language {
    &LANGUAGES[0]
}

pub(crate) fn all() -> impl Iterator<Item = &'static Language> {
    LANGUAGES.iter()
}

fn known() -> String {
    LANGUAGES.map(|language| language.names[0]).join(", ")
}

pub(crate) fn named(name: &str) -> anyhow::Result<&'static Language> {
    let lower = name.to_ascii_lowercase();
    let found = LANGUAGES.iter().find(|language| language.names.contains(&lower.as_str()));
    found.ok_or_else(|| {
        let error = anyhow::anyhow!("unknown language `{name}`");
        let hint = format!("the languages are {}; `belljar exec` runs any command", known());
        hinted(error, hint)
    })
}

/// By the file's name, else by its first line.
pub(crate) fn of_file(path: &Path, content: &[u8]) -> anyhow::Result<&'static Language> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let by_name = extension.and_then(|extension| {
        LANGUAGES.iter().find(|language| language.extensions.contains(&extension))
    });
    by_name.or_else(|| by_first_line(content)).ok_or_else(|| {
        let error = anyhow::anyhow!("cannot determine the language of `{}`", path.display());
        hinted(error, format!("choose one with --lang: {}", known()))
    })
}

fn by_first_line(content: &[u8]) -> Option<&'static Language> {
    let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace().filter(|word| !word.starts_with('-'));
    let mut program = Path::new(words.next()?).file_name()?.to_str()?;
    if program == "env" {
        program = words.next()?;
    }
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LANGUAGES.iter().find(|language| {
        language.programs.iter().any(|known| known.trim_end_matches('3') == program)
    })
}

impl Language {
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Finds what runs this language in `template`, as a path inside.
    pub(crate) fn interpreter(&self, template: &Template) -> anyhow::Result<PathBuf> {
        let told = self.names.iter().find_map(|name| template.languages.get(*name));
        if let Some(path) = told {
            return Ok(path.clone());
        }
        self.search(template).ok_or_else(|| {
            let name = self.name();
            let error = anyhow::anyhow!("the template `{}` has no {name}", template.name);
            let hint = if template.name == host::NAME {
                format!(
                    "install {} in /usr/bin of this host, or choose a --template",
                    self.programs[0]
                )
            } else {
                "`belljar template show` lists a template's languages".to_owned()
            };
            hinted(error, hint)
        })
    }

    fn search(&self, template: &Template) -> Option<PathBuf> {
        let places = self.programs.iter().flat_map(|program| {
            DIRECTORIES.iter().map(move |directory| Path::new(directory).join(program))
        });
        let is_there = |place: &PathBuf| {
            if template.name != host::NAME {
                // A link may lead to another layer, so that it is there is enough.
                let mut layers = template.root.layers.iter();
                return layers.any(|layer| layer.join(place).symlink_metadata().is_ok());
            }
            // Of the host, a sandbox sees no more than the binds.
            let found = Path::new("/").join(place).canonicalize();
            let seen =
                |path: PathBuf| template.root.binds.iter().any(|b| path.starts_with(&b.source));
            found.is_ok_and(seen)
        };
        places.into_iter().find(is_there).map(|place| Path::new("/").join(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_shows_its_language_by_name_or_first_line() {
        let of = |path: &str, content: &str| {
            of_file(Path::new(path), content.as_bytes()).map(Language::name).ok()
        };
        assert_eq!(of("a.py", ""), Some("python"));
        assert_eq!(of("a.mjs", ""), Some("javascript"));
        assert_eq!(of("a.sh", "#!/usr/bin/python3"), Some("bash"));
        assert_eq!(of("script", "#!/usr/bin/env python3\nprint()"), Some("python"));
        assert_eq!(of("script", "#!/usr/bin/env -S node --x"), Some("javascript"));
        assert_eq!(of("script", "#!/bin/sh"), Some("bash"));
        assert_eq!(of("script", "#!/usr/bin/python3.11"), Some("python"));
        assert_eq!(of("script", "hello"), None);
    }

    #[test]
    fn names_are_what_people_call_them() {
        for (name, want) in [("node", "javascript"), ("Python3", "python"), ("shell", "bash")] {
            assert_eq!(named(name).unwrap().name(), want);
        }
        assert!(named("cobol").is_err());
    }
}
