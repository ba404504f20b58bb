//! Files of each kind that other programs write, as small as they can be.

mod characters;
mod forms;
mod spacing;

use std::time::Instant;

use super::{Extracted, text, text_until};

/// A font that everybody has.
const HELVETICA: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

/// A stream; `dict` is what its dictionary has besides the length.
fn stream(dict: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("<< {dict} /Length {} >>\nstream\n", data.len());
    [head.as_bytes(), data, b"\nendstream"].concat()
}

/// A file of these objects, numbered from 1, of which the first is the catalog.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let (mut bytes, mut table) = (b"%PDF-1.7\n".to_vec(), String::new());
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", bytes.len());
        bytes.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    let (start, count) = (bytes.len(), objects.len() + 1);
    let end = format!(
        "xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R >>\n\
         startxref\n{start}\n%%EOF\n"
    );
    [bytes, end.into_bytes()].concat()
}

/// A file of pages with these contents. They have the font F1, which is object 3, and what `page` says;
/// the objects in `more` follow from 4 on.
fn pages(contents: &[Vec<u8>], font: &str, page: &str, more: &[Vec<u8>]) -> Vec<u8> {
    let first = 4 + more.len();
    let kids: String = (0..contents.len()).map(|n| format!("{} 0 R ", first + 2 * n)).collect();
    let mut objects: Vec<Vec<u8>> = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", contents.len()).into(),
        font.into(),
    ];
    objects.extend_from_slice(more);
    for (n, content) in contents.iter().enumerate() {
        let content_at = first + 2 * n + 1;
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {content_at} 0 R {page} \
                 /Resources << /Font << /F1 3 0 R /F2 4 0 R >> /XObject << /X 4 0 R >> >> >>"
            )
            .into(),
        );
        objects.push(content.clone());
    }
    file(&objects)
}

/// A file of a page that draws this with the font F1.
fn page(content: &str, font: &str, more: &[Vec<u8>]) -> Vec<u8> {
    pages(&[stream("", content.as_bytes())], font, "", more)
}

/// What is read of a file, of which nothing is left out.
#[track_caller]
fn whole(bytes: &[u8]) -> String {
    let Extracted { text, left_out, .. } = text(bytes).unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    text
}

/// A font of codes of two bytes, as programs write that embed a part of a font. Object 4 is the font
/// below it, object 5 its map to characters: 1 is `a`, and so on.
fn composite(widths: &str) -> (&'static str, Vec<Vec<u8>>) {
    let below = format!(
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Quokka {widths} \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> \
         /FontDescriptor << /Type /FontDescriptor /FontName /Quokka /Flags 4 >> >>"
    );
    let map = b"begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange \
                1 beginbfrange <0001> <001a> <0061> endbfrange endcmap";
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Quokka /Encoding /Identity-H \
                /DescendantFonts [4 0 R] /ToUnicode 5 0 R >>";
    (font, vec![below.into(), stream("", map)])
}

/// Codes of that font.
fn codes(word: &str) -> String {
    let codes: String = word.bytes().map(|b| format!("{:04x}", b - b'a' + 1)).collect();
    format!("<{codes}>")
}

#[test]
fn widths_of_a_range_of_glyphs_keep_words_together() {
    // As Chromium writes them, and programs that use its library: no default width, and each glyph is
    // put where it belongs.
    let (font, more) = composite("/DW 0 /W [1 26 500]");
    let shown = |c: char| format!("{} Tj 10 0 Td ", codes(&c.to_string()));
    let word = |word: &str| word.chars().map(shown).collect::<String>();
    let content =
        format!("BT /F1 20 Tf 50 700 Td {} 5 0 Td {} ET", word("document"), word("about"));
    assert_eq!(whole(&page(&content, font, &more)), "document about\n");
}

#[test]
fn text_turned_by_90_degrees_has_its_words_and_lines() {
    let line = |x: u32, words: &str| format!("0 1 -1 0 {x} 100 Tm {words}");
    let content = format!(
        "BT /F1 12 Tf {} {} ET",
        line(100, "[(PAYEE) -500 (NAME)] TJ"),
        line(120, "(second row) Tj")
    );
    assert_eq!(whole(&page(&content, HELVETICA, &[])), "PAYEE NAME\nsecond row\n");
}

#[test]
fn a_filter_may_be_an_object_of_its_own() {
    let content =
        stream("/Filter 4 0 R", b"4254202f46312039205466202877c36f6d6261742920546a204554>");
    let filter = b"/ASCIIHexDecode".to_vec();
    let read = whole(&pages(&[content], HELVETICA, "", &[filter]));
    assert!(read.ends_with("ombat\n"), "{read}");
}

#[test]
fn an_encoding_may_be_a_map_of_its_own() {
    // As Ghostscript writes it: codes of one byte for glyphs of a composite font.
    let (_, mut more) = composite("/DW 500");
    more[1] = stream(
        "/Type /CMap /CMapName /Own",
        b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange \
          1 begincidrange <00> <ff> 0 endcidrange endcmap",
    );
    let map = b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange \
                1 beginbfrange <01> <1a> <0061> endbfrange endcmap";
    more.push(stream("", map));
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Quokka /Encoding 5 0 R \
                /DescendantFonts [4 0 R] /ToUnicode 6 0 R >>";
    let read = whole(&page("BT /F1 9 Tf 50 700 Td <0102020114> Tj ET", font, &more));
    assert_eq!(read, "abbat\n");
}

#[test]
fn a_font_that_says_nothing_is_left_out_alone_and_told() {
    for encoding in ["/Identity-H", "/No-Such-Encoding", "7"] {
        let unknown = format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /Numbat /Encoding {encoding} /DescendantFonts \
             [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Numbat /CIDSystemInfo \
             << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"
        );
        let content = "BT /F1 12 Tf 50 700 Td (before) Tj 0 -20 Td /F2 12 Tf <000100020003> Tj \
                       0 -20 Td /F1 12 Tf (after) Tj ET";
        let Extracted { text, left_out, .. } =
            text(&page(content, HELVETICA, &[unknown.into_bytes()])).unwrap();
        assert_eq!(text, "before\nafter\n", "{encoding}");
        let told = "page 1: 3 of 3 characters are left out: the font Numbat does not say which they \
                    are";
        assert_eq!(left_out, [told], "{encoding}");
    }
}

#[test]
fn chinese_japanese_and_korean_need_no_font_in_the_file() {
    for (ordering, encoding, shown, expected) in [
        ("GB1", "UniGB-UCS2-H", "<53174eac>", "北京\n"),
        ("Japan1", "90ms-RKSJ-H", "<93fa967b>", "日本\n"),
        ("CNS1", "ETen-B5-H", "<a578a55f>", "台北\n"),
        ("Korea1", "KSCms-UHC-H", "<c7d1b1db>", "한글\n"),
        ("Japan1", "UniJIS-UTF16-V", "<65e5672c>", "日本\n"),
    ] {
        let font = format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /{encoding} /DescendantFonts \
             [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Song /CIDSystemInfo \
             << /Registry (Adobe) /Ordering ({ordering}) /Supplement 2 >> \
             /FontDescriptor << /Type /FontDescriptor /FontName /Song /Flags 4 >> >>] >>"
        );
        let content = format!("BT /F1 12 Tf 50 700 Td {shown} Tj ET");
        let Extracted { text, .. } = text(&page(&content, &font, &[])).unwrap();
        assert!(text.contains(expected), "{encoding}: {text:?}");
    }
}

#[test]
fn glyphs_are_known_by_the_font_program_if_nothing_else_names_them() {
    // TrueType with two tables: ten glyphs, of which 1 to 5 are `v` to `z`.
    let be =
        |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_be_bytes()).collect() };
    let cmap = [
        be(&[1, 3 << 16 | 10, 12, 12 << 16, 28, 0, 1]),
        be(&[u32::from(b'v'), u32::from(b'z'), 1]),
    ]
    .concat();
    let head = [b"\0\x01\0\0\0\x02\0\0\0\0\0\0".as_slice(), b"cmap"].concat();
    let tables = [be(&[0, 44, 40]), b"maxp".to_vec(), be(&[0, 84, 6])].concat();
    let program = [head, tables, cmap, be(&[0x5000]), vec![0, 10]].concat();
    let below = "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Quokka /DW 500 /FontDescriptor \
                 << /Type /FontDescriptor /FontName /Quokka /Flags 4 /FontFile2 5 0 R >> \
                 /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>";
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Quokka /Encoding /Identity-H \
                /DescendantFonts [4 0 R] >>";
    let content = "BT /F1 9 Tf 50 700 Td <000300040005> Tj ET";
    let read = whole(&page(content, font, &[below.into(), stream("", &program)]));
    assert_eq!(read, "xyz\n");
}

#[test]
fn drawn_glyphs_are_known_by_names_that_are_their_codes() {
    // As TeX's older drivers name them, in units of their own.
    let font = "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 60 60] /FontMatrix [.012 0 0 .012 0 0] \
                /FirstChar 97 /LastChar 98 /Widths [40 40] /CharProcs << /a97 4 0 R /a98 4 0 R >> \
                /Encoding << /Type /Encoding /Differences [97 /a97 /a98] >> >>";
    let glyph = stream("", b"40 0 d0");
    let content = "BT /F1 1 Tf 10 0 0 10 50 700 Tm [(ab) -400 (ba)] TJ ET";
    assert_eq!(whole(&page(content, font, &[glyph])), "ab ba\n");
}

#[test]
fn pages_are_apart_also_on_the_same_height() {
    let shown = |text: &str| stream("", format!("BT /F1 9 Tf 50 700 Td ({text}) Tj ET").as_bytes());
    let read = whole(&pages(&[shown("quokka"), shown("Budget")], HELVETICA, "", &[]));
    assert_eq!(read, "quokka\n\u{c}Budget\n");
}

#[test]
fn values_of_fields_are_read_as_they_are_shown_or_stored() {
    let fields: [&[u8]; 7] = [
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (from the value) /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (b) /V (shown once) /Rect [9 9 99 20] \
          /AP << /N 12 0 R >> >>",
        b"<< /Type /Annot /Subtype /Widget /Parent << /FT /Tx /V <feff00e90074e9> >> /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Ch /V [(one) (two)] /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /Ff 8192 /V (secret) /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /F 2 /V (hidden) /Rect [0 0 9 9] >>",
        b"<< /Type /Annot /Subtype /Widget /FT /Btn /V /Yes /Rect [0 0 9 9] >>",
    ];
    let mut more: Vec<Vec<u8>> = vec![b"null".to_vec()];
    more.extend(fields.map(|field| field.to_vec()));
    let drawn = b"/Tx BMC BT /F1 9 Tf 2 2 Td (shown once) Tj ET EMC";
    more.push(stream("/Type /XObject /Subtype /Form /BBox [0 0 90 11]", drawn));
    let content = stream("", b"BT /F1 9 Tf 50 700 Td (Form) Tj ET");
    let annotations = "/Annots [5 0 R 6 0 R 7 0 R 8 0 R 9 0 R 10 0 R 11 0 R]";
    let read = whole(&pages(&[content], HELVETICA, annotations, &more));
    assert_eq!(read, "Form\nfrom the value\nshown once\nét\none\ntwo\n");
}

#[test]
fn notes_and_stamps_are_read_and_what_only_links_is_not() {
    let annotations = "/Annots [<< /Subtype /Text /Contents (a note) /Rect [0 0 9 9] >> \
                       << /Subtype /Highlight /Contents (marked\\rhere) /Rect [0 0 9 9] >> \
                       << /Subtype /Popup /Contents (a note) /Rect [0 0 9 9] >> \
                       << /Subtype /Link /Contents (a link) /Rect [0 0 9 9] >> \
                       << /Subtype /Stamp /AP << /N << /On 4 0 R /Off 3 0 R >> >> /AS /On \
                       /Rect [0 0 9 9] >>]";
    let stamp = stream("/Subtype /Form /BBox [0 0 9 9]", b"BT /F1 9 Tf (Paid) Tj ET");
    let read = whole(&pages(&[stream("", b"")], HELVETICA, annotations, &[stamp]));
    assert_eq!(read, "a note\nmarked\nhere\nPaid\n");
}

#[test]
fn a_file_with_wrong_offsets_is_repaired() {
    let right = page("BT /F1 9 Tf 50 700 Td (words) Tj ET", HELVETICA, &[]);
    let moved = [b"%PDF-1.7\n% a line that moves all\n".as_slice(), &right[9..]].concat();
    assert_eq!(whole(&moved), "words\n");
    let at = right.windows(4).position(|four| four == b"xref").unwrap();
    assert_eq!(whole(&right[..at]), "words\n");
}

#[test]
fn a_damaged_page_costs_only_itself() {
    let shown = |text: &str| stream("", format!("BT /F1 9 Tf 50 700 Td ({text}) Tj ET").as_bytes());
    let damaged = stream("/Filter /FlateDecode", b"\xff\xff this is not deflated");
    let odd = stream("/Filter /ASCII85Decode", b"\xff\xff neither~>");
    let contents = [shown("one"), damaged, shown("three"), odd];
    let Extracted { text, left_out, .. } = text(&pages(&contents, HELVETICA, "", &[])).unwrap();
    assert_eq!(text, "one\n\u{c}\u{c}three\n\u{c}");
    assert_eq!(left_out, ["pages 2, 4: a part is damaged and left out"]);
}

#[test]
fn a_page_that_is_a_picture_is_told() {
    let image = "/Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray";
    let contents = [stream("", b"BT /F1 9 Tf (words) Tj ET"), stream("", b"/X Do")];
    let file = pages(&contents, HELVETICA, "", &[stream(image, b"\0")]);
    let Extracted { text, left_out, .. } = text(&file).unwrap();
    assert_eq!(text, "words\n\u{c}");
    assert_eq!(left_out, ["page 2 has a picture and no text, as scans have"]);
}

#[test]
fn what_is_said_for_glyphs_stands_for_them() {
    let content = "BT /F1 9 Tf 50 700 Td (an e) Tj /Span << /ActualText (x) >> BDC (---) Tj EMC \
                   (ample) Tj /Span << /ActualText () >> BDC (-) Tj EMC ET";
    assert_eq!(whole(&page(content, HELVETICA, &[])), "an example\n");
}

#[test]
fn a_form_uses_the_font_of_its_page_and_does_not_draw_itself() {
    let form = stream("/Subtype /Form /BBox [0 0 9 9]", b"BT (once) Tj ET /X Do");
    let content = "/F1 9 Tf 1 0 0 1 50 700 cm /X Do 1 0 0 1 0 -50 cm /X Do";
    assert_eq!(whole(&page(content, HELVETICA, &[form])), "once\nonce\n");
}

#[test]
fn what_is_beside_the_page_is_not_read() {
    let content = "BT /F1 9 Tf 50 700 Td (seen) Tj 0 200 Td (printed on the sheet) Tj ET";
    assert_eq!(whole(&page(content, HELVETICA, &[])), "seen\n");
}

#[test]
fn pages_for_which_there_is_no_time_are_told() {
    let content = stream("", b"BT /F1 9 Tf (words) Tj ET");
    let file = pages(&[content.clone(), content], HELVETICA, "", &[]);
    let Extracted { text, left_out, .. } = text_until(&file, Instant::now()).unwrap();
    assert_eq!(text, "\u{c}");
    assert_eq!(left_out, ["pages 1 to 2 are left out: the file takes too long to read"]);
}

#[test]
fn a_form_that_is_made_when_it_is_opened_is_told() {
    let mut file = page("BT /F1 9 Tf (Please wait) Tj ET", HELVETICA, &[]);
    let at = file.windows(6).position(|six| six == b"/Pages").unwrap();
    file.splice(at..at, b"/NeedsRendering true ".to_vec());
    let Extracted { left_out, .. } = text(&file).unwrap();
    assert!(left_out[0].contains("XFA"), "{left_out:?}");
}
