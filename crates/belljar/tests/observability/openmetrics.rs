//! Reads the OpenMetrics text format, strictly: what a scraper might not take is
//! an error here.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Scraped {
    pub(crate) families: BTreeMap<String, Family>,
}

#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    help: bool,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Debug)]
pub(crate) struct Sample {
    name: String,
    pub(crate) labels: BTreeMap<String, String>,
    value: f64,
}

/// Endings that samples of a type have.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_sum", "_count"],
        _ => &[],
    }
}

pub(crate) fn parse(text: &str) -> Result<Scraped, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let mut scraped = Scraped::default();
    let mut current: Option<String> = None;
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut parts = rest.splitn(3, ' ');
            let (word, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            let more = parts.next().unwrap_or("");
            is_name(name)?;
            if current.as_deref() != Some(name) && scraped.families.contains_key(name) {
                return Err(format!("{name} is there twice"));
            }
            current = Some(name.to_owned());
            let family = scraped.families.entry(name.to_owned()).or_default();
            match word {
                "HELP" if !family.help && !more.is_empty() => family.help = true,
                "TYPE" if family.kind.is_empty() && !suffixes(more).is_empty() => {
                    more.clone_into(&mut family.kind);
                }
                _ => return Err(format!("it makes no sense here: {line}")),
            }
            continue;
        }
        let sample = sample(line)?;
        let name = current.as_deref().ok_or("a sample comes before its type")?;
        let family = scraped.families.get_mut(name).ok_or("a sample has no family")?;
        let fits = suffixes(&family.kind).iter().any(|end| format!("{name}{end}") == sample.name);
        if !fits || !family.help {
            return Err(format!("it is no sample of {name}: {line}"));
        }
        let same = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
        if family.samples.iter().any(same) {
            return Err(format!("it is there twice: {line}"));
        }
        let counts = matches!(family.kind.as_str(), "counter" | "histogram");
        if counts && sample.value < 0.0 {
            return Err(format!("it counts down: {line}"));
        }
        family.samples.push(sample);
    }
    for (name, family) in &scraped.families {
        if family.kind == "histogram" {
            family.check_buckets(name)?;
        }
    }
    Ok(scraped)
}

impl Family {
    /// Buckets hold what those below hold, and the last one everything.
    fn check_buckets(&self, name: &str) -> Result<(), String> {
        let without_le = |sample: &Sample| {
            let mut labels = sample.labels.clone();
            labels.remove("le");
            labels
        };
        let series: BTreeSet<_> = self.samples.iter().map(without_le).collect();
        for labels in series {
            let of = |suffix: &str| {
                let full = format!("{name}{suffix}");
                let own = self.samples.iter().filter(move |one| one.name == full);
                own.filter(|one| without_le(one) == labels).collect::<Vec<_>>()
            };
            let (mut bound, mut count) = (f64::NEG_INFINITY, 0.0);
            for bucket in of("_bucket") {
                let le = bucket.labels.get("le").ok_or("a bucket without a bound")?;
                let le = number(le)?;
                if le <= bound || bucket.value < count {
                    return Err(format!("buckets of {name} are out of order"));
                }
                (bound, count) = (le, bucket.value);
            }
            let all = of("_count");
            if bound != f64::INFINITY || all.len() != 1 || all[0].value != count {
                return Err(format!("buckets of {name} do not add up"));
            }
            if of("_sum").len() != 1 {
                return Err(format!("{name} has no sum"));
            }
        }
        Ok(())
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let wrong = || format!("it is no sample: {line}");
    let end = line.find(['{', ' ']).ok_or_else(wrong)?;
    let (name, mut rest) = line.split_at(end);
    is_name(name)?;
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").ok_or_else(wrong)?;
            is_name(label)?;
            let (value, after) = quoted(after).ok_or_else(wrong)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong());
            }
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or_else(wrong)?;
    Ok(Sample { name: name.to_owned(), labels, value: number(value)? })
}

/// A quoted text without its first quote, and what follows its last.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                same @ ('"' | '\\') => same,
                _ => return None,
            }),
            (_, other) => value.push(other),
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        _ if text.bytes().all(|byte| b"+-.0123456789eE".contains(&byte)) => {
            text.parse().map_err(|_| format!("{text} is no number"))
        }
        _ => Err(format!("{text} is no number")),
    }
}

fn is_name(text: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let ok = !text.is_empty() && text.bytes().all(fits) && !text.as_bytes()[0].is_ascii_digit();
    if ok { Ok(()) } else { Err(format!("{text:?} is no name")) }
}

impl Scraped {
    /// All samples of this name that have these labels, together.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            let all = labels.iter();
            sample.name == name
                && all
                    .copied()
                    .all(|(label, value)| sample.labels.get(label).is_some_and(|own| own == value))
        };
        self.families
            .values()
            .flat_map(|family| &family.samples)
            .filter(has)
            .map(|one| one.value)
            .sum()
    }

    /// What a label of it is, everywhere.
    pub(crate) fn labels(&self, name: &str, label: &str) -> BTreeSet<String> {
        let all = self.families.values().flat_map(|family| &family.samples);
        let own = all.filter(|sample| sample.name == name);
        own.filter_map(|sample| sample.labels.get(label).cloned()).collect()
    }
}

#[test]
fn what_a_scraper_would_not_take_is_an_error() {
    let good = "# HELP a_b Text.\n# TYPE a_b counter\na_b_total{x=\"1\\\"2\"} 3\n# EOF\n";
    assert_eq!(parse(good).unwrap().sum("a_b_total", &[("x", "1\"2")]), 3.0);
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_b_total", "a_b"),
        ("counter", "gauge"),
        ("# HELP a_b Text.\n", ""),
        ("} 3", "} x"),
        ("} 3", "}3"),
        ("} 3", "} -3"),
        ("x=\"1", "x=1"),
        ("x=", "X="),
        ("\\\"", "\\x"),
        ("# EOF", "a_b_total{x=\"1\\\"2\"} 3\n# EOF"),
    ] {
        assert!(parse(&good.replace(from, to)).is_err(), "{from:?} as {to:?}");
    }
    let buckets = "# HELP h H.\n# TYPE h histogram\nh_sum 1\nh_count 2\n\
                   h_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n# EOF\n";
    assert!(parse(buckets).is_ok());
    for (from, to) in
        [("h_count 2", "h_count 3"), ("+Inf", "2.0"), ("} 1", "} 3"), ("h_sum 1\n", "")]
    {
        assert!(parse(&buckets.replace(from, to)).is_err(), "{from:?} as {to:?}");
    }
}
