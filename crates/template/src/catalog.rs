//! Recipes that come with Belljar.

use std::path::Path;

use crate::recipe::{Recipe, RecipeError};

/// Name and text of each.
const RECIPES: [(&str, &str); 6] = [
    ("claude-code", include_str!("../../../recipes/claude-code.toml")),
    ("code-interpreter", include_str!("../../../recipes/code-interpreter.toml")),
    ("codex", include_str!("../../../recipes/codex.toml")),
    ("dev", include_str!("../../../recipes/dev.toml")),
    ("node", include_str!("../../../recipes/node.toml")),
    ("python-data", include_str!("../../../recipes/python-data.toml")),
];

/// The names, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|(name, _)| *name)
}

/// The recipe's text, to show or to start one's own from.
pub fn text(name: &str) -> Option<&'static str> {
    RECIPES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A recipe that comes with Belljar; `None` if there is none of that name.
pub fn recipe(name: &str) -> Option<Result<Recipe, RecipeError>> {
    text(name).map(|text| Recipe::parse(text, name, Path::new("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_valid_and_bears_its_name() {
        for name in names() {
            assert_eq!(recipe(name).unwrap().unwrap().name, name);
        }
        assert!(recipe("nothing").is_none());
    }
}
