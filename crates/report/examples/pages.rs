//! Writes example reports into a directory, for browsers: `cargo run -p belljar-report --example
//! pages -- DIR`.

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::fs;
use std::path::PathBuf;

use belljar_report::{Body, Brand, Logo, Report, Verdict, render};

const LOGO: &str = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32' width='32' height='32'>\
    <rect width='32' height='32' rx='8' fill='#4338ca'/>\
    <path d='M8 22 L14 12 L18 18 L24 9' fill='none' stroke='#fff' stroke-width='3'/></svg>";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = PathBuf::from(std::env::args().nth(1).ok_or("which directory?")?);
    fs::create_dir_all(&place)?;
    let brand = Brand::default()
        .with_name("Acme Analytics")?
        .with_logo(Logo::new(LOGO.as_bytes())?)
        .with_light("#4338ca".parse()?)?
        .with_dark("#a5b4fc".parse()?)?;
    let mut exhausted = samples::report();
    exhausted.body = Body::Markdown(include_str!("../tests/samples/short.md").to_owned());
    exhausted.charts.clear();
    exhausted.provenance.verdict = Verdict {
        is_answered: false,
        outcome: "exhausted".to_owned(),
        message: Some("12 of 12 turns are used".to_owned()),
    };
    // All hostile texts in one page, except for those that hide what follows them.
    let html = |text: String| Report { body: Body::Html(text), ..samples::report() };
    let hostile = include_str!("../tests/hostile.txt");
    let hostile = hostile.split("=== ").filter_map(|case| case.split_once('\n'));
    let hostile = hostile.map(|(name, text)| format!("<p>{name}</p>\n<div>{text}</div>\n"));
    let is_open = |text: &String| {
        render(&html(format!("{text}<p>END OF IT</p>")), &brand).html.contains("END OF IT")
    };
    let hostile = html(hostile.filter(is_open).collect());
    for (name, report, brand) in [
        ("sales", samples::report(), Brand::default()),
        ("exhausted", exhausted, brand),
        ("hostile", hostile, Brand::default()),
    ] {
        fs::write(place.join(format!("{name}.html")), render(&report, &brand).html)?;
    }
    Ok(())
}
