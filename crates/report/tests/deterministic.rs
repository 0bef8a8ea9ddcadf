//! Equal inputs are equal bytes, and every input counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod samples;

use std::collections::BTreeSet;

use belljar_report::{Body, Brand, Logo, Report, render};
use samples::{PNG, report};

/// Numbers that look like random ones, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

fn invented(numbers: &mut Numbers) -> Report {
    const PIECES: &[&str] = &[
        "# A\n\n",
        "## B\n\n",
        "text ",
        "**c** ",
        "\n\n",
        "- x\n",
        "| a | b |\n|--|-:|\n| x | 1 |\n",
        "![d](chart:weeks.png)",
        "![e](regions.svg)",
        "<b>",
        "</b>",
        "<div>",
        "</div>",
        "`code` ",
        "[f](https://example.com) ",
        "<table><tr><td>1",
        "<h2 id=x>",
        "\u{202e}",
        "&lt;",
        "<!--",
        "[^1]",
    ];
    let count = numbers.below(60);
    let text: String = (0..count).map(|_| PIECES[numbers.below(PIECES.len())]).collect();
    let mut made = report();
    made.body = if numbers.below(2) == 0 { Body::Markdown(text) } else { Body::Html(text) };
    made.provenance.turns = u32::try_from(numbers.below(50)).unwrap();
    made.charts.truncate(numbers.below(3));
    made
}

#[test]
fn equal_inputs_are_equal_bytes() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut inputs, mut pages) = (Vec::new(), BTreeSet::new());
    for _ in 0..400 {
        let one = invented(&mut numbers);
        let first = render(&one, &Brand::default());
        // Copies have other addresses, and hash maps of the libraries other seeds.
        let again = one.clone();
        let second = std::thread::spawn(move || render(&again, &Brand::default())).join().unwrap();
        assert_eq!(first, second, "{one:?}");
        pages.insert(first.sha256);
        if !inputs.contains(&one) {
            inputs.push(one);
        }
    }
    // And other inputs are other bytes, because the page has their digest.
    assert_eq!(pages.len(), inputs.len());
    assert!(inputs.len() > 300, "{}", inputs.len());
}

#[test]
fn every_input_counts() {
    let mut all = vec![report(); 16];
    all[1].provenance.run.push('x');
    all[2].provenance.question.push('x');
    all[3].provenance.verdict.outcome.push('x');
    all[4].provenance.verdict.message = Some(String::new());
    all[5].provenance.verdict.is_answered = false;
    all[6].provenance.models.push(String::new());
    all[7].provenance.data[0].name.push('x');
    all[8].provenance.data[0].bytes += 1;
    all[9].provenance.data[0].sha256.push('x');
    all[10].provenance.turns += 1;
    all[11].provenance.tokens += 1;
    all[12].provenance.nano_dollars += 1;
    all[13].provenance.finished.push('x');
    all[14].charts[0].content.as_mut().unwrap().push(0);
    all[15].charts[0].media_type.push('x');
    let brand = Brand::default();
    let brands = [
        brand.clone().with_name("Acme").unwrap(),
        brand.clone().with_logo(Logo::new(PNG).unwrap()),
        brand.clone().with_light("#1d4ed8".parse().unwrap()).unwrap(),
        brand.clone().with_dark("#93c5fd".parse().unwrap()).unwrap(),
    ];
    let digest = |html: &str| html.split("id=\"inputs\">").nth(1).unwrap()[..64].to_owned();
    let mut digests: BTreeSet<_> =
        all.iter().map(|one| digest(&render(one, &brand).html)).collect();
    digests.extend(brands.iter().map(|brand| digest(&render(&report(), brand).html)));
    assert_eq!(digests.len(), all.len() + brands.len());
}

#[test]
fn the_policy_allows_our_styles_and_pictures_and_nothing_else() {
    let rendered = render(&report(), &Brand::default());
    let inside = rendered.policy.strip_suffix("; frame-ancestors 'none'; sandbox").unwrap();
    assert!(
        inside.starts_with("default-src 'none'; img-src data:; style-src 'sha256-"),
        "{inside}"
    );
    let written = inside.replace('\'', "&#39;");
    assert!(rendered.html.contains(&format!("content=\"{written}\"")));
    assert_eq!(rendered.html.matches("<style>").count(), 1);
}

#[test]
fn a_whole_report_has_its_parts() {
    let html = render(&report(), &Brand::default()).html;
    for part in [
        "<h1>North sold most in the third quarter</h1>",
        "<p class=\"question\"><b>Question</b> Which region sold most",
        "<li class=\"level-2\"><a href=\"#s-how-it-was-computed\">How it was computed</a></li>",
        "<li class=\"good\">answered</li>",
        "data:image/png;base64,",
        "data:image/svg+xml;base64,",
        "<td class=\"num\">184,233</td>",
        "<dt>Model cost</dt><dd>$0.08412</dd>",
        "The run has no chart \u{201c}chart:weather.png\u{201d}.",
    ] {
        assert!(html.contains(part), "{part}");
    }
}
