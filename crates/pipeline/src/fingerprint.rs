//! The proof that two attempts differ: a digest of what the machine would do differently.
//!
//! Comments, blanks and empty lines are left out, so a new comment is no new attempt. The
//! indentation stays, because it has a meaning in Python.

use belljar_objects::Digest;

use crate::message::CodeArtifact;

/// The digest of an artifact's code, commands and limits.
pub fn fingerprint(artifact: &CodeArtifact) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = (
        &artifact.filename,
        normalized(&artifact.code, artifact.filename.ends_with(".py")),
        artifact.install_command.as_deref().map(words),
        words(&artifact.run_command),
        artifact.install_limit(),
        artifact.run_limit(),
        artifact.memory_bytes,
    );
    // A tuple of texts and numbers is always JSON.
    Digest::of(&serde_json::to_vec(&parts).unwrap_or_default()).to_string()
}

/// The code without what has no effect.
fn normalized(code: &str, is_python: bool) -> String {
    let mut scan = Scan { rest: code, is_python, lines: Vec::new(), line: String::new() };
    scan.run();
    scan.lines.join("\n")
}

struct Scan<'c> {
    rest: &'c str,
    is_python: bool,
    lines: Vec<String>,
    line: String,
}

impl Scan<'_> {
    fn run(&mut self) {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '\n' => {
                    self.rest = &self.rest[1..];
                    self.end_line();
                }
                '\'' | '"' => self.text(),
                '`' if !self.is_python => self.text(),
                '#' if self.is_python => self.skip_to("\n"),
                '/' if !self.is_python && self.rest.starts_with("//") => self.skip_to("\n"),
                '/' if !self.is_python && self.rest.starts_with("/*") => {
                    self.skip_to("*/");
                    self.rest = self.rest.strip_prefix("*/").unwrap_or(self.rest);
                }
                ' ' | '\t' | '\r' => self.blank(),
                other => {
                    self.line.push(other);
                    self.rest = &self.rest[other.len_utf8()..];
                }
            }
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_end();
        if !line.is_empty() {
            self.lines.push(line.to_owned());
        }
    }

    fn skip_to(&mut self, end: &str) {
        let at = self.rest.find(end).unwrap_or(self.rest.len());
        self.rest = &self.rest[at..];
    }

    /// Keeps blanks that indent a line, and one where two words would become one.
    fn blank(&mut self) {
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r']).len();
        let (blanks, rest) = self.rest.split_at(blank);
        self.rest = rest;
        if self.line.is_empty() {
            if self.is_python {
                self.line.push_str(blanks.trim_end_matches('\r'));
            }
            return;
        }
        let is_word =
            |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
        if is_word(self.line.chars().next_back()) && is_word(rest.chars().next()) {
            self.line.push(' ');
        }
    }

    /// Copies a string as it is.
    fn text(&mut self) {
        let quote = &self.rest[..1];
        let triple = quote.repeat(3);
        let is_triple = self.is_python && self.rest.starts_with(&triple);
        let quote = if is_triple { triple } else { quote.to_owned() };
        let mut end = quote.len();
        while end < self.rest.len() && !self.rest[end..].starts_with(&quote) {
            let mut letters = self.rest[end..].chars();
            let letter = letters.next().map_or(1, char::len_utf8);
            let is_escape = self.rest[end..].starts_with('\\');
            end += letter + if is_escape { letters.next().map_or(0, char::len_utf8) } else { 0 };
        }
        let end = (end + quote.len()).min(self.rest.len());
        self.line.push_str(&self.rest[..end]);
        self.rest = &self.rest[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(filename: &str, code: &str) -> CodeArtifact {
        CodeArtifact {
            filename: filename.to_owned(),
            code: code.to_owned(),
            install_command: None,
            run_command: "python main.py".to_owned(),
            install_seconds: None,
            run_seconds: None,
            memory_bytes: None,
        }
    }

    #[test]
    fn comments_and_blanks_make_no_difference() {
        let of = |code: &str| fingerprint(&artifact("main.py", code));
        let code = "import os\nif x:\n    print('a  # b')\n";
        let same = "# A comment.\n\nimport  os   # more\n\nif x :\n    print( 'a  # b' )\n\n";
        assert_eq!(of(code), of(same));
        for other in [
            "import os\nif x:\n    print('a # b')\n",
            "import os\nif x:\nprint('a  # b')\n",
            "import os\nif x:\n    print('a  # b')\nprint(1)\n",
            "importos\nif x:\n    print('a  # b')\n",
        ] {
            assert_ne!(of(code), of(other), "{other}");
        }
        let of = |code: &str| fingerprint(&artifact("main.js", code));
        assert_eq!(of("let a = 1; // b\n"), of("  /* c\n */ let a=1;"));
        assert_ne!(of("let a = '//b';"), of("let a = '//c';"));
    }

    #[test]
    fn commands_and_limits_make_a_difference() {
        let code = artifact("main.py", "print(1)");
        let changed = [
            CodeArtifact { install_command: Some("pip install a".into()), ..code.clone() },
            CodeArtifact { run_command: "python -O main.py".into(), ..code.clone() },
            CodeArtifact { run_seconds: Some(61), ..code.clone() },
            CodeArtifact { memory_bytes: Some(1 << 30), ..code.clone() },
        ];
        for other in &changed {
            assert_ne!(fingerprint(other), fingerprint(&code), "{other:?}");
        }
        // The default said aloud is the default.
        let said = CodeArtifact { run_seconds: Some(60), ..code.clone() };
        assert_eq!(fingerprint(&said), fingerprint(&code));
    }

    #[test]
    fn any_bytes_have_a_fingerprint() {
        for code in ["'", "\"\"\"", "'\\", "'\\ü", "ü 'ü' #ü", "/*", "`"] {
            for name in ["main.py", "main.js"] {
                assert_eq!(fingerprint(&artifact(name, code)).len(), 64);
            }
        }
    }
}
