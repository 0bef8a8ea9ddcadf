//! The rules that a recipe's values keep.

use std::path::{Component, Path};

use belljar_domain::Tier;

use super::{Base, FileEntry, Recipe, RecipeError};

/// Each command is a layer, and an overlay takes only so many of them.
const MAX_COMMANDS: usize = 24;

pub(super) fn recipe(recipe: &Recipe) -> Result<(), RecipeError> {
    let invalid =
        |what: String, hint| Err(RecipeError::Invalid { recipe: recipe.name.clone(), what, hint });
    if !template_name(&recipe.name) {
        let what = format!("the name `{}` is not valid", recipe.name);
        return invalid(what, "use up to 63 of a-z, 0-9 and -, starting with a letter");
    }
    if recipe.name == crate::host::NAME {
        return invalid(
            "the name `host` is reserved".into(),
            "it is the template of this host's own /usr",
        );
    }
    if recipe.tier == Some(Tier::Process) {
        let hint = "that tier has no root filesystem; omit `tier`, or choose a stronger one";
        return invalid("the tier is `process`".into(), hint);
    }
    let packages = &recipe.packages;
    match &recipe.base {
        Base::Debian { suite } if !starts_plain(suite, "-") => {
            return invalid(format!("`{suite}` is not a suite"), "use a release, such as trixie");
        }
        Base::Debian { .. } => {}
        Base::Oci { .. } | Base::Directory { .. } if !packages.apt.is_empty() => {
            let hint = "apt packages need `base = { debian = \"…\" }`; \
                        put them into the image, or change the base";
            return invalid("packages.apt is set, but the base is not Debian".into(), hint);
        }
        Base::Oci { .. } | Base::Directory { .. } => {}
    }
    if let Some(name) = packages.apt.iter().find(|name| !starts_plain(name, "+.-:=~_")) {
        return invalid(format!("`{name}` is not an apt package"), "use a name or name=version");
    }
    if let Some(name) = packages.pip.iter().find(|name| !pip_requirement(name)) {
        let hint = "use name, name==version or name[extra]; no option, path or URL";
        return invalid(format!("`{name}` is not a pip requirement"), hint);
    }
    if let Some(name) = packages.npm.iter().find(|name| !npm_package(name)) {
        let hint = "use name, @scope/name or name@version; no option, path or URL";
        return invalid(format!("`{name}` is not an npm package"), hint);
    }
    for entry in &recipe.files {
        if let Some((what, hint)) = file_entry(entry) {
            return invalid(format!("the file `{}` {what}", entry.target.display()), hint);
        }
    }
    if recipe.run.len() > MAX_COMMANDS {
        let what = format!("there are more than {MAX_COMMANDS} commands");
        return invalid(what, "join some with && or put them into a script");
    }
    if recipe.run.iter().any(|command| command.trim().is_empty() || command.contains('\0')) {
        return invalid("a command is empty".into(), "remove it");
    }
    for (name, value) in &recipe.env {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit());
        if !named || value.contains('\0') {
            return invalid(
                format!("`{name}` is not a variable name"),
                "use letters, digits and _",
            );
        }
    }
    for (language, path) in &recipe.languages {
        if !template_name(language) || !absolute(path) {
            let what = format!("the interpreter of `{language}` is `{}`", path.display());
            return invalid(
                what,
                "use an absolute path inside the template, such as /usr/bin/python3",
            );
        }
    }
    let limits = recipe.default_limits();
    limits.check().map_err(|source| RecipeError::Limits { recipe: recipe.name.clone(), source })
}

/// Names are directories in the store, and words on a command line.
pub(crate) fn template_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(plain)
}

fn starts_plain(text: &str, also: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(plain) && text.chars().all(|c| plain(c) || also.contains(c))
}

/// PEP 508 without URLs and markers.
pub(crate) fn pip_requirement(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(plain) && text.chars().all(|c| plain(c) || "._-[],<>=!~+*".contains(c))
}

fn npm_package(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let (scope, rest) = match text.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (scope, rest),
            None => return false,
        },
        None => ("a", text),
    };
    let allowed = |c: char| plain(c) || "._-^~".contains(c);
    scope.starts_with(plain)
        && scope.chars().all(allowed)
        && rest.starts_with(plain)
        && rest.chars().all(|c| allowed(c) || c == '@')
}

fn absolute(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|c| c != Component::ParentDir)
}

fn file_entry(entry: &FileEntry) -> Option<(&'static str, &'static str)> {
    if entry.source.is_some() == entry.content.is_some() {
        return Some(("needs either `source` or `content`", "set exactly one of them"));
    }
    if !absolute(&entry.target) || entry.target.file_name().is_none() {
        return Some(("has an invalid target", "use an absolute path without `..`"));
    }
    None
}
