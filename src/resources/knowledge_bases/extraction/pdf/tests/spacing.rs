//! Blanks between words, and none between letters that are spaced.

use super::{HELVETICA, codes, composite, page, whole};

/// What is read of this in Helvetica at 12 points.
#[track_caller]
fn shown(content: &str) -> String {
    whole(&page(&format!("BT /F1 12 Tf 50 700 Td {content} ET"), HELVETICA, &[]))
}

#[test]
fn letters_that_the_file_spaces_are_words() {
    for content in [
        "2 Tc (SPACED HEADLINE) Tj",
        "14 TL 0 2 (SPACED HEADLINE) \"",
        "6 Tc 50 Tz (SPACED HEADLINE) Tj",
        "2 Tc [(SPACED) -278 (HEADLINE)] TJ",
        "2 Tc [(S) 10 (P) 20 (A) -10 (C) (E) (D) ( ) (HEADLINE)] TJ",
        "2 Tc (SPACED) Tj 0 Tc ( HEADLINE) Tj",
        "2 Tc (SPA) Tj 2 Ts (CED) Tj 0 Ts ( ) Tj 0 Tc (HEADLINE) Tj",
        "0 1 -1 0 50 100 Tm 2 Tc (SPACED HEADLINE) Tj",
    ] {
        assert_eq!(shown(content), "SPACED HEADLINE\n", "{content}");
    }
}

#[test]
fn spacing_that_makes_a_blank_is_one() {
    assert_eq!(shown("(fo) Tj 3 Tc (o) Tj 0 Tc (bar) Tj"), "foo bar\n");
    assert_eq!(shown("4.5 Tc [(As) 375 (e) 375 (c) 375 (t)] TJ"), "A sect\n");
    assert_eq!(shown("40 Tc (30) Tj"), "3 0\n");
    assert_eq!(shown("-1 Tc [(foo) -278 (bar)] TJ"), "foo bar\n");
    assert_eq!(shown("2 Tc (foo) Tj 4 Tw ( bar) Tj"), "foo bar\n");
}

#[test]
fn letters_that_are_placed_one_by_one_are_words() {
    // As Chromium places letters that a style or the length of a text of SVG sets apart; glyphs are 500 wide.
    let (font, more) = composite("/DW 500");
    let placed = |text: &str, step: f64, blank: f64| {
        let (mut content, mut x) = (String::from("BT /F1 20 Tf "), 50.0);
        for c in text.chars() {
            if c == ' ' {
                x += blank;
            } else {
                content += &format!("1 0 0 1 {x:.2} 700 Tm {} Tj ", codes(&c.to_string()));
                x += step;
            }
        }
        whole(&page(&(content + "ET"), font, &more))
    };
    for (step, blank) in [(15.0, 15.0), (13.0, 10.0), (19.0, 20.0)] {
        assert_eq!(placed("spaced headline", step, blank), "spaced headline\n", "{step}");
    }
    assert_eq!(placed("contents", 15.0, 0.0), "contents\n");
    assert_eq!(placed("abcde", 24.0, 0.0), "a b c d e\n");
}

#[test]
fn gaps_like_narrow_blanks_are_blanks_and_kerning_is_none() {
    for (back, read) in [(150, "foo bar baz\n"), (170, "foo bar baz\n"), (110, "foobarbaz\n")] {
        assert_eq!(shown(&format!("[(foo) -{back} (bar) -{back} (baz)] TJ")), read, "{back}");
        let moved = format!("[(f) -{back} (o)] TJ");
        assert_eq!(shown(&moved), if back > 120 { "f o\n" } else { "fo\n" });
    }
    assert_eq!(shown("[(A) 70 (V) 92 (A) -100 (T) 110 (o) -55 (r) -18 (.)] TJ"), "AVATor.\n");
}
