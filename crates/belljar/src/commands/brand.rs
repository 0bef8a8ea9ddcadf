//! The brand of reports, from a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_report::{Brand, Logo};
use serde::Deserialize;

use crate::output::Hint as _;

const KEYS: &str = "its keys are `name`, `logo` (a PNG, JPEG or SVG file beside it), `light` and \
                    `dark` (colours such as \"#1d4ed8\" for headings and links on a light and on a dark page)";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    logo: Option<PathBuf>,
    light: Option<String>,
    dark: Option<String>,
}

/// Reads a brand; without a file, it is our own.
pub(super) fn read(path: Option<&Path>) -> anyhow::Result<Brand> {
    let Some(path) = path else { return Ok(Brand::default()) };
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
    let brand = toml::from_str(&text).map_err(anyhow::Error::from);
    let brand = brand.and_then(|file| made(file, path.parent().unwrap_or(Path::new(""))));
    brand.with_context(|| format!("`{}` is not a brand", path.display())).hint(KEYS)
}

fn made(file: File, beside: &Path) -> anyhow::Result<Brand> {
    let mut brand = Brand::default();
    if let Some(name) = &file.name {
        brand = brand.with_name(name).context("name")?;
    }
    if let Some(logo) = &file.logo {
        let path = beside.join(logo);
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        brand = brand.with_logo(Logo::new(&bytes).context("logo")?);
    }
    if let Some(light) = &file.light {
        brand = brand.with_light(light.parse().context("light")?).context("light")?;
    }
    if let Some(dark) = &file.dark {
        brand = brand.with_dark(dark.parse().context("dark")?).context("dark")?;
    }
    Ok(brand)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> anyhow::Result<Brand> {
        let place = tempfile::tempdir()?;
        fs::write(place.path().join("logo.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>")?;
        let path = place.path().join("brand.toml");
        fs::write(&path, text)?;
        read(Some(&path))
    }

    #[test]
    fn a_brand_is_a_file() {
        let brand =
            of("name = \"Acme\"\nlogo = \"logo.svg\"\nlight = \"#1d4ed8\"\ndark = \"#93c5fd\"");
        let brand = brand.unwrap();
        assert_ne!(brand, Brand::default());
        assert_eq!(of("").unwrap(), Brand::default());
        assert_eq!(read(None).unwrap(), Brand::default());
    }

    #[test]
    fn a_brand_that_cannot_be_read_is_refused() {
        for (text, expected) in [
            ("colour = \"#000000\"", "unknown field `colour`"),
            ("light = \"#ffff00\"", "contrast"),
            ("dark = \"blue\"", "not a colour"),
            ("logo = \"other.png\"", "cannot read"),
            ("name = \"\"", "name"),
        ] {
            let error = format!("{:#}", of(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
