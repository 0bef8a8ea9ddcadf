//! The verdict of a checker or a judge: a JSON object with a score and a reason.

use serde::Deserialize;

use crate::answer::Score;

/// The longest reason that is kept.
const MAX_REASON: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    score: f64,
    reason: String,
}

/// A text that is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum VerdictError {
    #[error("it is not a JSON object with `score` and `reason`")]
    Json(#[from] serde_json::Error),
    #[error("its score {0} is not between 0 and 1")]
    Range(f64),
}

/// Reads a verdict. Models put it into a block of code sometimes.
pub fn verdict(text: &str) -> Result<Score, VerdictError> {
    let Verdict { score, reason } = serde_json::from_str(unfenced(text.trim()))?;
    if !(0.0..=1.0).contains(&score) {
        return Err(VerdictError::Range(score));
    }
    Ok(Score { score, reason: reason.chars().take(MAX_REASON).collect() })
}

fn unfenced(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_a_score_within_bounds_and_a_reason() {
        let want = Score { score: 0.5, reason: "half".into() };
        for text in [
            r#"{"score": 0.5, "reason": "half"}"#,
            "```json\n{\"score\": 0.5, \"reason\": \"half\"}\n```",
        ] {
            assert_eq!(verdict(text).unwrap(), want, "{text}");
        }
        for text in [
            "",
            "good",
            "0.5",
            r#"{"score": 0.5}"#,
            r#"{"score": "0.5", "reason": "half"}"#,
            r#"{"score": 1.5, "reason": "more"}"#,
            r#"{"score": -1, "reason": "less"}"#,
            r#"{"score": 1, "reason": "", "pass": true}"#,
            r#"{"score": 1, "reason": ""} and more"#,
        ] {
            assert!(verdict(text).is_err(), "{text}");
        }
        let long = format!(r#"{{"score": 1, "reason": "{}"}}"#, "ä".repeat(600));
        assert_eq!(verdict(&long).unwrap().reason.chars().count(), MAX_REASON);
    }
}
