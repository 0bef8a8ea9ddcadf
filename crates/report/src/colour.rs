//! Colours, and the contrast between them.

use std::fmt;
use std::str::FromStr;

/// The least contrast between text and its background, for people with low vision (WCAG 2, AA).
pub(crate) const MIN_CONTRAST: f64 = 4.5;

/// A colour without transparency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    red: u8,
    green: u8,
    blue: u8,
}

/// Not a colour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a colour such as #1d4ed8")]
pub struct ColourError(String);

impl Colour {
    pub(crate) const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self { red, green, blue }
    }

    /// The contrast to another colour, from 1 to 21.
    pub(crate) fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    /// The relative luminance, from 0 to 1.
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.red) + 0.7152 * linear(self.green) + 0.0722 * linear(self.blue)
    }
}

impl FromStr for Colour {
    type Err = ColourError;

    fn from_str(text: &str) -> Result<Self, ColourError> {
        let error = || ColourError(text.to_owned());
        let digits = text.strip_prefix('#').ok_or_else(error)?;
        let mut parts = [0; 3];
        hex::decode_to_slice(digits, &mut parts).map_err(|_| error())?;
        let [red, green, blue] = parts;
        Ok(Self { red, green, blue })
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_has_six_digits() {
        let colour: Colour = "#1D4ed8".parse().unwrap();
        assert_eq!(colour, Colour::new(0x1d, 0x4e, 0xd8));
        assert_eq!(colour.to_string(), "#1d4ed8");
        for wrong in ["", "#", "#fff", "1d4ed8", "#1d4ed", "#1d4ed8;", "red", "#gggggg"] {
            assert!(wrong.parse::<Colour>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn contrast_is_that_of_the_standard() {
        let (black, white) = (Colour::new(0, 0, 0), Colour::new(255, 255, 255));
        assert!((black.contrast(white) - 21.0).abs() < 0.01);
        assert!((white.contrast(white) - 1.0).abs() < 0.01);
        // The grey that is just dark enough on white, and the next lighter one.
        assert!(Colour::new(0x76, 0x76, 0x76).contrast(white) >= MIN_CONTRAST);
        assert!(Colour::new(0x77, 0x77, 0x77).contrast(white) < MIN_CONTRAST);
    }
}
