//! The brand of an operator: a name, a logo and two colours.

use crate::chart;
use crate::colour::{Colour, MIN_CONTRAST};

/// The largest logo.
pub const MAX_LOGO_BYTES: usize = 64 << 10;
/// The longest name.
const MAX_NAME: usize = 60;

/// Backgrounds of the page, light and dark, as its styles have them.
pub(crate) const LIGHT: Colour = Colour::new(0xff, 0xff, 0xff);
pub(crate) const DARK: Colour = Colour::new(0x15, 0x1b, 0x23);

/// The brand of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brand {
    name: String,
    logo: Option<Logo>,
    light: Colour,
    dark: Colour,
}

/// A small picture beside the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logo(String);

/// The reason that a brand cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrandError {
    #[error("the name has no letters, or more than {MAX_NAME}")]
    Name,
    #[error("the logo is larger than {MAX_LOGO_BYTES} bytes")]
    LargeLogo,
    #[error("the logo is not a PNG, JPEG or SVG picture")]
    Logo,
    #[error(
        "the colour {colour} has a contrast of {contrast}:1 to the {page} page; text needs {MIN_CONTRAST}:1"
    )]
    Contrast { colour: Colour, page: &'static str, contrast: String },
}

impl Default for Brand {
    fn default() -> Self {
        Self {
            name: "Belljar".to_owned(),
            logo: None,
            light: Colour::new(0x0f, 0x76, 0x6e),
            dark: Colour::new(0x5e, 0xea, 0xd4),
        }
    }
}

impl Brand {
    /// Changes the name.
    pub fn with_name(self, name: &str) -> Result<Self, BrandError> {
        let name = name.trim();
        match name.chars().count() {
            1..=MAX_NAME => Ok(Self { name: name.to_owned(), ..self }),
            _ => Err(BrandError::Name),
        }
    }

    pub fn with_logo(self, logo: Logo) -> Self {
        Self { logo: Some(logo), ..self }
    }

    /// Changes the colour of headings and links in the light page, or in the dark one.
    pub fn with_light(self, colour: Colour) -> Result<Self, BrandError> {
        Ok(Self { light: readable(colour, LIGHT, "light")?, ..self })
    }

    pub fn with_dark(self, colour: Colour) -> Result<Self, BrandError> {
        Ok(Self { dark: readable(colour, DARK, "dark")?, ..self })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn logo(&self) -> Option<&Logo> {
        self.logo.as_ref()
    }

    pub(crate) fn light(&self) -> Colour {
        self.light
    }

    pub(crate) fn dark(&self) -> Colour {
        self.dark
    }
}

impl Logo {
    /// A logo made of the bytes of a PNG, JPEG or SVG picture.
    pub fn new(bytes: &[u8]) -> Result<Self, BrandError> {
        if bytes.len() > MAX_LOGO_BYTES {
            return Err(BrandError::LargeLogo);
        }
        chart::data_uri(bytes).map(Self).ok_or(BrandError::Logo)
    }

    pub(crate) fn uri(&self) -> &str {
        &self.0
    }
}

fn readable(colour: Colour, on: Colour, page: &'static str) -> Result<Colour, BrandError> {
    let contrast = colour.contrast(on);
    if contrast >= MIN_CONTRAST {
        return Ok(colour);
    }
    Err(BrandError::Contrast { colour, page, contrast: format!("{contrast:.1}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_colours_are_readable() {
        let brand = Brand::default();
        assert!(brand.light.contrast(LIGHT) >= MIN_CONTRAST);
        assert!(brand.dark.contrast(DARK) >= MIN_CONTRAST);
    }

    #[test]
    fn a_colour_that_cannot_be_read_is_refused() {
        let yellow = "#ffee00".parse().unwrap();
        assert!(Brand::default().with_dark(yellow).is_ok());
        let error = Brand::default().with_light(yellow).unwrap_err();
        assert!(error.to_string().contains("#ffee00 has a contrast of 1.2:1"), "{error}");
    }

    #[test]
    fn a_brand_is_small() {
        let brand = Brand::default();
        assert_eq!(brand.clone().with_name("  "), Err(BrandError::Name));
        assert_eq!(brand.clone().with_name(&"x".repeat(61)), Err(BrandError::Name));
        assert_eq!(brand.with_name(" Acme ").unwrap().name(), "Acme");
        assert_eq!(Logo::new(&[0; MAX_LOGO_BYTES + 1]), Err(BrandError::LargeLogo));
        assert_eq!(Logo::new(b"GIF89a"), Err(BrandError::Logo));
    }
}
