//! The proof that two attempts differ: a digest of what the machine would do differently.
//!
//! Comments, blanks and empty lines are left out, so a new comment is no new attempt. The
//! indentation stays, because it has a meaning in Python. So does a blank between two signs that
//! are another one together: `= =` is an error, and `==` its repair.

use belljar_objects::Digest;

use crate::message::CodeArtifact;

/// The digest of an artifact's code, commands and limits.
pub fn fingerprint(artifact: &CodeArtifact) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = (
        &artifact.filename,
        normalized(&artifact.code, Syntax::of(&artifact.filename)),
        artifact.install_command.as_deref().map(words),
        words(&artifact.run_command),
        artifact.install_limit(),
        artifact.run_limit(),
        artifact.memory_bytes,
    );
    // A tuple of texts and numbers is always JSON.
    Digest::of(&serde_json::to_vec(&parts).unwrap_or_default()).to_string()
}

/// The comments that a file may have, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Python,
    JavaScript,
    /// Nothing is taken for a comment.
    Other,
}

impl Syntax {
    fn of(filename: &str) -> Self {
        match filename.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "py" => Self::Python,
            "js" | "cjs" | "mjs" | "ts" => Self::JavaScript,
            _ => Self::Other,
        }
    }
}

/// Signs of two characters that mean something else with a blank between them.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "=>", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**",
    "//", "<<", ">>", "++", "--", "&&", "||", "??", "?.", "/*",
];

/// The code without what has no effect.
fn normalized(code: &str, syntax: Syntax) -> String {
    let (is_python, is_javascript) = (syntax == Syntax::Python, syntax == Syntax::JavaScript);
    let (lines, line) = (Vec::new(), String::new());
    let mut scan = Scan { rest: code, is_python, is_javascript, lines, line };
    scan.run();
    scan.lines.join("\n")
}

struct Scan<'c> {
    rest: &'c str,
    is_python: bool,
    is_javascript: bool,
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
                '`' if self.is_javascript => self.text(),
                '#' if self.is_python => self.skip_to("\n"),
                '/' if self.is_javascript && self.rest.starts_with("//") => self.skip_to("\n"),
                '/' if self.is_javascript && self.rest.starts_with("/*") => {
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

    /// Keeps blanks that indent a line, and one where two words or two signs would become one.
    fn blank(&mut self) {
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r']).len();
        let (blanks, rest) = self.rest.split_at(blank);
        self.rest = rest;
        if self.line.is_empty() {
            if !self.is_javascript {
                self.line.push_str(blanks.trim_end_matches('\r'));
            }
            return;
        }
        let (Some(before), Some(after)) = (self.line.chars().next_back(), rest.chars().next())
        else {
            return;
        };
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        // `f "a"` is no formatted string.
        let is_of_words = is_word(before) && (is_word(after) || "'\"`".contains(after));
        let is_of_signs = SIGNS.iter().any(|sign| sign.chars().eq([before, after]));
        if is_of_words || is_of_signs {
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
    fn a_blank_whose_removal_repairs_a_program_makes_a_difference() {
        for (name, broken, whole) in [
            ("main.py", "if a = = 1:\n    pass\n", "if a == 1:\n    pass\n"),
            ("main.py", "print(f \"{a}\")\n", "print(f\"{a}\")\n"),
            ("main.js", "if (a = = 1) {}\n", "if (a == 1) {}\n"),
            ("main.js", "f(a - - b)\n", "f(a -- b)\n"),
        ] {
            let of = |code: &str| fingerprint(&artifact(name, code));
            assert_ne!(of(broken), of(whole), "{whole}");
        }
        let of = |code: &str| fingerprint(&artifact("main.py", code));
        assert_eq!(of("x = -1\ny = [1 , 2]\n"), of("x=-1\ny=[1,2]\n"));
    }

    /// A comment in one language is code in another.
    #[test]
    fn files_of_other_languages_have_no_comments() {
        for (name, one, other) in [
            ("main.sh", "curl http://a\n", "curl http://b\n"),
            ("main", "print(7 // 2)\n", "print(7 // 3)\n"),
            ("main.sh", "echo a#1\n", "echo a#2\n"),
            ("main.yaml", "a:\n  b: 1\n", "a:\nb: 1\n"),
        ] {
            assert_ne!(
                fingerprint(&artifact(name, one)),
                fingerprint(&artifact(name, other)),
                "{name} {one}"
            );
        }
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
            for name in ["main.py", "main.js", "main"] {
                assert_eq!(fingerprint(&artifact(name, code)).len(), 64);
            }
        }
    }
}
