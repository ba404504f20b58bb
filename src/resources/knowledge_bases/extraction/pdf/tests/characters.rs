//! Characters of fonts whose own map, or none, says which they are.

use super::super::Extracted;
use super::{page, stream, text, whole};

/// A map of codes to characters.
fn map(lines: &str, count: usize) -> Vec<u8> {
    let map = format!(
        "begincmap 1 begincodespacerange <00> <ff> endcodespacerange {count} beginbfchar {lines} \
         endbfchar endcmap"
    );
    stream("", map.as_bytes())
}

/// What is read of a text in a font of small codes with this map, which is object 4; what is left out.
fn mapped(font: &str, lines: &str, shown: &str) -> (String, Vec<String>) {
    let font = format!("<< /Type /Font {font} /ToUnicode 4 0 R >>");
    let content = format!("BT /F1 12 Tf 50 700 Td {shown} Tj ET");
    let map = map(lines, lines.split_whitespace().count() / 2);
    let Extracted { text, left_out, .. } = text(&page(&content, &font, &[map])).unwrap();
    (text, left_out)
}

#[test]
fn a_map_that_knows_no_character_gives_way_to_the_encoding() {
    for unknown in ["FFFD", "FFFF", "E041", "F8FFFFFD", "DBFFDFFD", "0000", "0041E000"] {
        for font in [
            "/Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding",
            "/Subtype /TrueType /BaseFont /Arial /Encoding /WinAnsiEncoding",
            "/Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [65 /A] >>",
        ] {
            let (text, left_out) = mapped(font, &format!("<41> <{unknown}>"), "(ABC words)");
            assert_eq!((text.as_str(), left_out.len()), ("ABC words\n", 0), "{font} {unknown}");
        }
    }
}

#[test]
fn what_neither_map_nor_encoding_know_is_left_out_and_told() {
    let font = "/Subtype /Type1 /BaseFont /Numbat /Encoding << /Differences [65 /g1 /g2] >>";
    let (text, left_out) = mapped(font, "<41> <FFFD> <42> <E000>", "(ABC words)");
    assert_eq!(text, "C words\n");
    let told =
        "page 1: 2 of 9 characters are left out: the font Numbat does not say which they are";
    assert_eq!(left_out, [told]);
}

#[test]
fn drawn_glyphs_are_known_by_their_names_where_the_map_knows_none() {
    let font = "/Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [.1 0 0 .1 0 0] /FirstChar 1 \
                /LastChar 3 /Widths [5 5 5] /CharProcs << >> \
                /Encoding << /Type /Encoding /Differences [1 /Lslash /a#28b /uni00E9] >>";
    let (text, left_out) = mapped(font, "<01> <FFFD> <02> <FFFD> <03> <E003>", "<010203>");
    assert_eq!(text, "Ł é\n");
    assert_eq!(left_out.len(), 1);
}

#[test]
fn symbols_are_what_they_are_in_their_fonts() {
    let of = |name: &str, code: &str| {
        let font = format!("/Subtype /TrueType /BaseFont /{name} /Encoding /WinAnsiEncoding");
        let (text, left_out) = mapped(&font, &format!("<{code}> <F0{code}>"), &format!("<{code}>"));
        (text.trim().to_string(), left_out.len())
    };
    for (name, code, read) in [
        ("SymbolMT", "B7", "•"),
        ("ABCDEF+Symbol", "61", "α"),
        ("Wingdings-Regular", "FC", "✓"),
        ("ABCDEF+Wingdings", "A7", "▪"),
    ] {
        assert_eq!(of(name, code), (read.into(), 0), "{name} {code}");
    }
    for (name, code) in [("Wingdings", "4A"), ("Wingdings2", "FC"), ("Webdings", "61")] {
        assert_eq!(of(name, code), (String::new(), 1), "{name} {code}");
    }
}

/// A composite font without its program, of one of the collections.
fn cjk(encoding: &str, ordering: &str, widths: &str) -> String {
    format!(
        "<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /{encoding} /DescendantFonts \
         [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Song {widths} /CIDSystemInfo \
         << /Registry (Adobe) /Ordering ({ordering}) /Supplement 2 >> \
         /FontDescriptor << /Type /FontDescriptor /FontName /Song /Flags 4 >> >>] >>"
    )
}

#[test]
fn codes_of_encodings_that_are_named_for_unicode_are_characters() {
    for (encoding, ordering, shown, read) in [
        ("UniJIS2004-UTF16-H", "Japan1", "<65e5672cd842dfb70061>", "日本𠮷a\n"),
        ("UniJISX0213-UTF32-H", "Japan1", "<000065e50000672c00020bb7>", "日本𠮷\n"),
        ("UniJISPro-UCS2-V", "Japan1", "<65e5672c>", "日本\n"),
        ("UniGB-UTF8-H", "GB1", "<e58c97e4baac2041>", "北京 A\n"),
        ("UniGB-UTF32-V", "GB1", "<0000531700004eac>", "北京\n"),
        ("UniCNS-UTF32-H", "CNS1", "<000053f000005317>", "台北\n"),
        ("UniAKR-UTF16-H", "KR", "<d55cae00>", "한글\n"),
        ("UniAKR-UTF8-H", "KR", "<ed959ceab880>", "한글\n"),
        ("UniKS-UTF8-V", "Korea1", "<ed959ceab880>", "한글\n"),
    ] {
        let content = format!("BT /F1 12 Tf 50 700 Td {shown} Tj ET");
        let font = cjk(encoding, ordering, "");
        assert_eq!(whole(&page(&content, &font, &[])), read, "{encoding}");
        // Also of a font that is damaged.
        let font = font.replace("DescendantFonts", "Descendants");
        assert_eq!(whole(&page(&content, &font, &[])), read, "{encoding}");
    }
}

#[test]
fn glyphs_of_such_an_encoding_have_the_widths_of_their_collection() {
    // `A` and `B` are the glyphs 34 and 35 of it.
    let font = cjk("UniJIS2004-UTF16-H", "Japan1", "/DW 1000 /W [34 [250 250]]");
    let content = "BT /F1 10 Tf 50 700 Td <0041> Tj 2.5 0 Td <0042> Tj 5 0 Td <0041> Tj ET";
    assert_eq!(whole(&page(content, &font, &[])), "AB A\n");
}

#[test]
fn codes_of_such_an_encoding_that_are_no_characters_are_told() {
    let content = "BT /F1 12 Tf 50 700 Td <e58c97ffe0> Tj ET";
    let Extracted { text, left_out, .. } =
        text(&page(content, &cjk("UniGB-UTF8-H", "GB1", ""), &[])).unwrap();
    assert_eq!(text, "北\n");
    let told = "page 1: 2 of 3 characters are left out: the font Song does not say which they are";
    assert_eq!(left_out, [told]);
}
