//! Fields and notes as programs store them that leave it to viewers to draw them.

use super::{HELVETICA, pages, stream, text, whole};

/// What is read of a page with these annotations and nothing else; the objects in `more` follow from 4 on.
#[track_caller]
fn annotated(annotations: &[&str], more: &[Vec<u8>]) -> String {
    whole(&file(annotations, more))
}

fn file(annotations: &[&str], more: &[Vec<u8>]) -> Vec<u8> {
    let all: String =
        annotations.iter().map(|one| format!("<< /Rect [0 0 9 9] {one} >> ")).collect();
    pages(&[stream("", b"")], HELVETICA, &format!("/Annots [{all}]"), more)
}

#[test]
fn a_value_may_be_a_stream() {
    let values = [
        stream("", b"a long\rvalue"),
        stream("", b"\xfe\xff\x00e\x00\xe9"),
        stream("/Filter /ASCIIHexDecode", b"64656661>"),
    ];
    let fields = [
        "/Subtype /Widget /FT /Tx /V 4 0 R",
        "/Subtype /Widget /Parent << /FT /Tx /V 5 0 R >> /V null",
        "/Subtype /Widget /FT /Tx /V 6 0 R",
        "/Subtype /FreeText /Contents 4 0 R",
        "/Subtype /Widget /FT /Tx /Ff 8192 /V 4 0 R",
    ];
    assert_eq!(annotated(&fields, &values), "a long\nvalue\neé\ndefa\na long\nvalue\n");
}

#[test]
fn a_damaged_value_is_told() {
    let value = stream("/Filter /FlateDecode", b"\xff\xff this is not deflated");
    let fields = ["/Subtype /Widget /FT /Tx /V 4 0 R", "/Subtype /Widget /FT /Tx /V (whole)"];
    let read = text(&file(&fields, &[value])).unwrap();
    assert_eq!(read.text, "whole\n");
    assert_eq!(read.left_out, ["page 1: a part is damaged and left out"]);
}

#[test]
fn what_is_chosen_is_read_by_its_name_for_people() {
    let options =
        "/Opt [[(1) (Alpha choice)] [(2) (Beta choice)] (plain) [<feff0033> (Gamma)] [(5)]]";
    let chosen =
        |value: &str| annotated(&[&format!("/Subtype /Widget /FT /Ch {options} {value}")], &[]);
    assert_eq!(chosen("/V (2)"), "Beta choice\n");
    assert_eq!(chosen("/V [(3) (plain) (1)]"), "Gamma\nplain\nAlpha choice\n");
    assert_eq!(chosen("/V (written by hand)"), "written by hand\n");
    assert_eq!(chosen("/V /2"), "Beta choice\n");
    assert_eq!(chosen("/V (5)"), "5\n");
    // Only their places are given.
    assert_eq!(chosen("/I [1 2 99]"), "Beta choice\nplain\n");
    let of_parent = format!("/Subtype /Widget /Parent << /FT /Ch {options} /V (2) >>");
    assert_eq!(annotated(&[&of_parent], &[]), "Beta choice\n");
}

#[test]
fn a_choice_that_is_drawn_is_read_once() {
    let drawn = stream("/Subtype /Form /BBox [0 0 9 9]", b"BT /F1 9 Tf (Beta choice) Tj ET");
    let field = "/Subtype /Widget /FT /Ch /Opt [[(2) (Beta choice)]] /V (2) /AP << /N 4 0 R >>";
    assert_eq!(annotated(&[field], &[drawn]), "Beta choice\n");
}

#[test]
fn rich_text_is_read_without_its_markup() {
    let rich = "<?xml version='1.0'?><body xmlns='http://www.w3.org/1999/xhtml'><p dir='ltr'>Pay \
                <b>by&#xA0;May</b> &amp;</p><p><span style='color:#ff0000'>or never</span></p></body>";
    let notes = ["/Subtype /FreeText /RC 4 0 R", "/Subtype /FreeText /RC 4 0 R /Contents ( )"];
    let read = annotated(&notes, &[stream("", rich.as_bytes())]);
    assert_eq!(read, "Pay by\u{a0}May &\nor never\nPay by\u{a0}May &\nor never\n");
    let both = format!("/Subtype /FreeText /RC ({rich}) /Contents (plain)");
    assert_eq!(annotated(&[&both], &[]), "plain\n");
    let field = "/Subtype /Widget /FT /Tx /RV (<body><p>rich <i>value</i></p></body>)";
    assert_eq!(annotated(&[field], &[]), "rich value\n");
}

#[test]
fn rich_text_that_is_too_long_is_told() {
    let rich = stream("", &b"<p>a</p>".repeat(1024 * 1024));
    let read =
        text(&file(&["/Subtype /FreeText /RC 4 0 R", "/Subtype /Text /Contents (b)"], &[rich]));
    let read = read.unwrap();
    assert_eq!(read.text, "b\n");
    assert_eq!(read.left_out, ["page 1: a part is damaged and left out"]);
}
