//! Parameters of a language model that a run may choose.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Parameters of every model request of a run. The provider decides what is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelParameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The most tokens of one answer, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
}

impl ModelParameters {
    /// Names of the parameters, as requests, events and metrics spell them.
    pub const TEMPERATURE: &str = "temperature";
    pub const EFFORT: &str = "effort";
    pub const OUTPUT_TOKENS: &str = "output_tokens";

    /// Returns true if nothing is chosen.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Sampling temperature, from 0 to 2, exact to a thousandth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Temperature(u16);

/// A number that is no temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a temperature is a number from 0 to {}", Temperature::MAX)]
pub struct InvalidTemperature;

impl Temperature {
    /// The highest temperature of any provider.
    pub const MAX: Self = Self(2000);
    /// The highest temperature of providers that stop at 1.
    pub const ONE: Self = Self(1000);
}

impl TryFrom<f64> for Temperature {
    type Error = InvalidTemperature;

    fn try_from(number: f64) -> Result<Self, InvalidTemperature> {
        if !(0.0..=f64::from(Self::MAX)).contains(&number) {
            return Err(InvalidTemperature);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 2000"
        )]
        let thousandths = (number * 1000.0).round() as u16;
        Ok(Self(thousandths))
    }
}

impl From<Temperature> for f64 {
    fn from(temperature: Temperature) -> Self {
        Self::from(temperature.0) / 1000.0
    }
}

impl FromStr for Temperature {
    type Err = InvalidTemperature;

    fn from_str(text: &str) -> Result<Self, InvalidTemperature> {
        text.parse::<f64>().map_err(|_| InvalidTemperature)?.try_into()
    }
}

/// As JSON writes it: `0.2`.
impl fmt::Display for Temperature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f64::from(*self).fmt(f)
    }
}

/// Reasoning effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Low,
    Medium,
    High,
}

/// A word that is no effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an effort is `low`, `medium` or `high`")]
pub struct InvalidEffort;

impl Effort {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl FromStr for Effort {
    type Err = InvalidEffort;

    fn from_str(text: &str) -> Result<Self, InvalidEffort> {
        let all = [Self::Low, Self::Medium, Self::High];
        all.into_iter().find(|effort| effort.as_str() == text).ok_or(InvalidEffort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_survives_its_text_and_its_json() {
        for text in ["0", "0.2", "0.333", "1", "1.7", "2"] {
            let temperature: Temperature = text.parse().unwrap();
            assert_eq!(temperature.to_string(), text);
            let json = serde_json::to_string(&temperature).unwrap();
            assert_eq!(serde_json::from_str::<Temperature>(&json).unwrap(), temperature);
        }
        for text in ["", "-0.1", "2.1", "NaN", "inf", "warm"] {
            assert_eq!(text.parse::<Temperature>(), Err(InvalidTemperature), "{text}");
        }
        assert_eq!(InvalidTemperature.to_string(), "a temperature is a number from 0 to 2");
    }

    #[test]
    fn absent_parameters_are_not_written() {
        assert_eq!(serde_json::to_string(&ModelParameters::default()).unwrap(), "{}");
        let chosen = ModelParameters {
            temperature: Some("0.2".parse().unwrap()),
            effort: Some("high".parse().unwrap()),
            output_tokens: Some(100),
        };
        let json = r#"{"temperature":0.2,"effort":"high","output_tokens":100}"#;
        assert_eq!(serde_json::to_string(&chosen).unwrap(), json);
        assert_eq!(serde_json::from_str::<ModelParameters>(json).unwrap(), chosen);
    }
}
