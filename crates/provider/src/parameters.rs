//! Parameters that a request names: which providers have them, and which of them were in force.

use belljar_domain::{Effort, ModelParameters, Temperature};
use belljar_llm::Dialect;
use belljar_llm::json::Value;
use http::HeaderMap;

use crate::provider::Options;
use crate::wire::{Version, label};

/// The header in which the gateway names parameters that it changed in a request.
const CHANGED: &str = "x-belljar-changed-parameters";

/// A parameter that a provider does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedParameter {
    #[error("the model's provider has no parameter `{0}`")]
    Missing(&'static str),
    #[error("the model's provider takes a `temperature` of at most {most}, not {given}")]
    Temperature { given: Temperature, most: Temperature },
    #[error("the model's provider does not take `temperature` and `effort` together")]
    Together,
}

/// Refuses parameters that requests in this dialect cannot carry.
pub fn check_parameters(
    dialect: Dialect,
    version: Version,
    parameters: &ModelParameters,
) -> Result<(), UnsupportedParameter> {
    let Some(given) = parameters.temperature else { return Ok(()) };
    let most = match dialect {
        Dialect::AnthropicMessages if version == Version::V2026_10_21 => {
            return Err(UnsupportedParameter::Missing(ModelParameters::TEMPERATURE));
        }
        // An effort turns reasoning on, and reasoning has one temperature.
        Dialect::AnthropicMessages if parameters.effort.is_some() => {
            return Err(UnsupportedParameter::Together);
        }
        Dialect::AnthropicMessages => Temperature::ONE,
        Dialect::OpenAiResponses | Dialect::OpenAiChat => Temperature::MAX,
    };
    if given > most {
        return Err(UnsupportedParameter::Temperature { given, most });
    }
    Ok(())
}

/// The parameters of an answer, as far as the gateway and the provider say them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedParameters {
    /// Names of those that the gateway changed.
    changed: Vec<String>,
    temperature: Option<Temperature>,
    effort: Option<String>,
    output_tokens: Option<u64>,
}

/// A parameter that was not in force as the request named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    pub parameter: &'static str,
    pub asked: String,
    /// The value that was in force instead; none: it is not known.
    pub applied: Option<String>,
}

impl AppliedParameters {
    /// Reads the parameters that an answer of the Responses API repeats.
    pub(crate) fn echoed(response: Value<'_>) -> Self {
        let temperature = response
            .get("temperature")
            .and_then(|value| std::str::from_utf8(value.raw()).ok()?.parse().ok());
        Self {
            changed: Vec::new(),
            temperature,
            effort: label(response.at(&["reasoning", "effort"])),
            output_tokens: response.get("max_output_tokens").and_then(|value| value.u64()),
        }
    }

    /// Adds the parameters that the gateway changed.
    pub(crate) fn with_headers(mut self, headers: &HeaderMap) -> Self {
        let changed = headers.get(CHANGED).and_then(|value| value.to_str().ok());
        let names = changed.into_iter().flat_map(|names| names.split(','));
        self.changed = names.map(|name| name.trim().to_owned()).collect();
        self
    }

    /// The parameters of a request that were not in force as it named them.
    pub fn deviations(&self, options: &Options) -> Vec<Deviation> {
        let temperature = options.temperature.map(|asked| {
            let applied = self.temperature.filter(|applied| *applied != asked);
            (ModelParameters::TEMPERATURE, asked.to_string(), applied.map(|it| it.to_string()))
        });
        let effort = options.effort.map(Effort::as_str).map(|asked| {
            let applied = self.effort.clone().filter(|applied| applied != asked);
            (ModelParameters::EFFORT, asked.to_owned(), applied)
        });
        let output = self.output_tokens.filter(|applied| *applied != options.max_output);
        let output = (
            ModelParameters::OUTPUT_TOKENS,
            options.max_output.to_string(),
            output.map(|it| it.to_string()),
        );
        let all = temperature.into_iter().chain(effort).chain([output]);
        let all = all.map(|(parameter, asked, applied)| Deviation { parameter, asked, applied });
        let is_changed = |name: &str| self.changed.iter().any(|changed| changed == name);
        all.filter(|one| one.applied.is_some() || is_changed(one.parameter)).collect()
    }
}

#[cfg(test)]
mod tests {
    use belljar_llm::json::Reader;
    use http::HeaderValue;

    use super::*;

    fn parameters(temperature: Option<&str>, effort: Option<Effort>) -> ModelParameters {
        let temperature = temperature.map(|text| text.parse().unwrap());
        ModelParameters { temperature, effort, output_tokens: None }
    }

    #[test]
    fn each_provider_takes_what_it_has() {
        use Dialect::{AnthropicMessages, OpenAiChat, OpenAiResponses};
        let check = |dialect, temperature, effort| {
            check_parameters(dialect, Version::default(), &parameters(temperature, effort))
        };
        for dialect in [AnthropicMessages, OpenAiResponses, OpenAiChat] {
            assert_eq!(check(dialect, None, None), Ok(()));
            assert_eq!(check(dialect, Some("1"), None), Ok(()));
            assert_eq!(check(dialect, None, Some(Effort::High)), Ok(()));
        }
        assert_eq!(check(OpenAiChat, Some("1.5"), Some(Effort::Low)), Ok(()));
        assert!(matches!(
            check(AnthropicMessages, Some("1.001"), None),
            Err(UnsupportedParameter::Temperature { .. })
        ));
        let together = check(AnthropicMessages, Some("1"), Some(Effort::Low));
        assert_eq!(together, Err(UnsupportedParameter::Together));
        let newer = Version::V2026_10_21;
        let newer = check_parameters(AnthropicMessages, newer, &parameters(Some("0"), None));
        assert_eq!(newer, Err(UnsupportedParameter::Missing("temperature")));
    }

    #[test]
    fn deviations_are_what_is_known_to_differ() {
        let mut options = Options::new("m", 100);
        options.temperature = Some("0.2".parse().unwrap());
        options.effort = Some(Effort::High);
        let applied = |json: &str| {
            let mut reader = Reader::new();
            AppliedParameters::echoed(reader.read(json.as_bytes()).unwrap())
        };
        let same = r#"{"temperature":0.2,"reasoning":{"effort":"high"},"max_output_tokens":100}"#;
        for json in ["{}", r#"{"temperature":null,"reasoning":null}"#, same] {
            assert_eq!(applied(json).deviations(&options), [], "{json}");
        }
        let other = r#"{"temperature":1.0,"reasoning":{"effort":"low"},"max_output_tokens":50}"#;
        let deviations = applied(other).deviations(&options);
        let seen: Vec<_> = deviations
            .iter()
            .map(|one| (one.parameter, one.asked.as_str(), one.applied.as_deref().unwrap_or("-")))
            .collect();
        let want = [("temperature", "0.2", "1"), ("effort", "high", "low")];
        assert_eq!(seen, [&want[..], &[("output_tokens", "100", "50")]].concat());

        let mut headers = HeaderMap::new();
        headers.insert(CHANGED, HeaderValue::from_static("output_tokens, temperature"));
        let changed = AppliedParameters::default().with_headers(&headers).deviations(&options);
        let names: Vec<_> = changed.iter().map(|one| one.parameter).collect();
        assert_eq!(names, ["temperature", "output_tokens"]);
        assert!(changed.iter().all(|one| one.applied.is_none()));
    }
}
