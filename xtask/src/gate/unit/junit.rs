//! Reads the JUnit report of `cargo nextest`.

use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedTest {
    /// The binary that holds it, as nextest names it: `belljar-store::store`.
    pub(crate) binary: String,
    pub(crate) name: String,
    pub(crate) began: SystemTime,
    pub(crate) seconds: f64,
    /// The first line of its failure.
    pub(crate) failure: Option<String>,
}

impl EndedTest {
    /// A nextest filter for exactly this test.
    pub(crate) fn filter(&self) -> String {
        format!("binary_id(={}) and test(={})", self.binary, self.name)
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<EndedTest>> {
    let mut reader = Reader::from_str(text);
    let mut ended: Vec<EndedTest> = Vec::new();
    let mut binary = String::new();
    loop {
        let event = reader.read_event().context("the report is not XML")?;
        let (Event::Start(tag) | Event::Empty(tag)) = &event else {
            if matches!(event, Event::Eof) {
                return Ok(ended);
            }
            continue;
        };
        match tag.name().as_ref() {
            b"testsuite" => binary = attribute(tag, "name")?,
            b"testcase" => ended.push(test_case(&binary, tag)?),
            b"failure" | b"error" => {
                let Some(test) = ended.last_mut() else { bail!("a failure of no test") };
                let message = attribute(tag, "message").or_else(|_| attribute(tag, "type"))?;
                test.failure = Some(message.lines().next().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
}

fn test_case(binary: &str, tag: &BytesStart<'_>) -> Result<EndedTest> {
    let (name, began) = (attribute(tag, "name")?, attribute(tag, "timestamp")?);
    let seconds = attribute(tag, "time")?;
    let parsed = OffsetDateTime::parse(&began, &Rfc3339);
    let began = parsed.with_context(|| format!("{name}: `{began}` is no time"))?.into();
    let seconds = seconds.parse().with_context(|| format!("{name}: `{seconds}` is no number"))?;
    Ok(EndedTest { binary: binary.to_owned(), name, began, seconds, failure: None })
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<String> {
    let found = tag.try_get_attribute(name)?;
    let found = found.with_context(|| format!("an element has no attribute `{name}`"))?;
    Ok(found.normalized_value(quick_xml::XmlVersion::Implicit1_0)?.into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="1" errors="0">
    <testsuite name="belljar-store::store" tests="2" failures="1">
        <testcase name="books::close" classname="belljar-store::store" timestamp="1970-01-01T00:00:10.500+00:00" time="1.25">
        </testcase>
        <testcase name="books::a_&quot;b&quot;" classname="belljar-store::store" timestamp="1970-01-01T01:00:20+01:00" time="0.5">
            <failure message="assertion failed&#10;more" type="test failure">thread panicked</failure>
            <system-out>a &lt;testcase&gt; in its output</system-out>
        </testcase>
    </testsuite>
    <testsuite name="belljar-sys" tests="1">
        <testcase name="fd::closes" timestamp="1970-01-01T00:00:30Z" time="0"/>
    </testsuite>
</testsuites>"#;

    #[test]
    fn every_test_is_read_with_its_failure() {
        let tests = parse(REPORT).unwrap();
        let names: Vec<_> = tests.iter().map(EndedTest::filter).collect();
        let wanted = [
            "binary_id(=belljar-store::store) and test(=books::close)",
            "binary_id(=belljar-store::store) and test(=books::a_\"b\")",
            "binary_id(=belljar-sys) and test(=fd::closes)",
        ];
        assert_eq!(names, wanted);
        let failures: Vec<_> = tests.iter().map(|test| test.failure.as_deref()).collect();
        assert_eq!(failures, [None, Some("assertion failed"), None]);
        let began: Vec<_> = tests.iter().map(|test| test.began).collect();
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(began, [at(10_500), at(20_000), at(30_000)]);
        assert!((tests[0].seconds - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_report_that_is_cut_off_is_an_error() {
        assert!(parse(&REPORT[..REPORT.len() / 2]).is_err());
        assert!(parse("<testcase name='a'/>").is_err());
    }
}
