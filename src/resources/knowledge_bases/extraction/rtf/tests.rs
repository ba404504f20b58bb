//! Texts in code pages, and what documents say of them.

use super::*;

#[track_caller]
fn is_read(rtf: &str, read: &str) {
    let file = format!("{{\\rtf1\\ansi {rtf}}}");
    assert_eq!(text(file.as_bytes()).unwrap(), read.to_string().into(), "{rtf}");
}

#[test]
fn text_is_read_in_the_code_pages_of_its_fonts() {
    is_read("\\deff0{\\fonttbl{\\f0\\fcharset204 Arial;}}\\'cf\\'f0", "Пр\n");
    let fonts = "{\\fonttbl{\\f0\\fcharset0 Arial;}{\\f1\\fcharset204{\\*\\panose 01}Arial Cyr;}{\\f2\\fcharset128 MS;}}";
    is_read(
        &format!(
            "{fonts}\\deff0 Gr\\'fc\\'dfe \\f1\\'cf\\'f0\\f0\\'e9 {{\\f2\\'8a\\'bf\\'8e\\'9a}}\\'e9"
        ),
        "Grüße Прé 漢字é\n",
    );
    is_read("\\ansicpg1251 \\'cf", "П\n");
    is_read("\\mac \\'8a", "ä\n");
    // Those of DOS.
    for word in ["pc", "pca", "ansicpg437", "ansicpg850", "ansicpg858"] {
        is_read(&format!("\\{word} caf\\'82"), "café\n");
    }
    is_read("{\\fonttbl{\\f0\\fcharset255 Terminal;}{\\f1\\cpg850 B;}}\\f0\\'9b\\f1\\'9b", "¢ø\n");
    // Of such a font the one of the computer on which the file was written.
    for (head, text) in [
        ("", "¢"),
        ("\\ansicpg1252\\deflang1031", "ø"),
        ("\\ansicpg1250", "Ť"),
        ("\\deflang1029", "Ť"),
        ("\\ansicpg1251\\deflang1049", "Ы"),
        ("\\pc", "¢"),
        ("\\pca", "ø"),
        ("\\ansicpg852", "Ť"),
    ] {
        is_read(
            &format!("{head}{{\\fonttbl{{\\f0 A;}}{{\\f1\\fcharset255 Terminal;}}}}\\f1\\'9b"),
            &format!("{text}\n"),
        );
    }
    // A byte that is the second one of a character and a letter.
    is_read(&format!("{fonts}\\f2\\'83A"), "ア\n");
}

#[test]
fn letters_of_code_pages_that_are_not_known_are_said_to_be_wrong() {
    let of = |rtf: &str| text(format!("{{\\rtf1 {rtf}}}").as_bytes()).unwrap();
    let read = of("\\ansicpg853 caf\\'e9");
    assert_eq!((read.text.as_str(), read.left_out.len()), ("café\n", 1));
    assert!(read.left_out[0].starts_with("the code page 853 is not known"));
    assert!(of("\\ansicpg853 cafe").left_out.is_empty());
    let many: String = (2..99).map(|n| format!("\\ansicpg{n}\\'e9")).collect();
    assert_eq!(of(&many).left_out.len(), MAX_UNKNOWN);
}

#[test]
fn characters_of_unicode_stand_before_their_substitutes() {
    is_read("\\u1055?\\uc2\\u8364\\'80\\'80a\\uc0\\u-4000b{\\uc1\\u233\\'e9}", "П€a\u{f060}bé\n");
    is_read("\\u-10179?\\u-8638?\\u-10179?x", "🙂x\n");
    is_read("\\u99999999999?a\\u128578?b", "a🙂b\n");
}

#[test]
fn tables_and_notes_are_apart() {
    is_read(
        "Before\\par\\trowd\\pard\\intbl A1\\cell B1\\par more\\cell\\row\\trowd\\pard\\intbl A2\\cell\\cell\\row\\pard After\\par",
        "Before\nA1\tB1 more\nA2\nAfter\n",
    );
    is_read(
        "a{\\super\\chftn}{\\footnote\\pard {\\super\\chftn} first}b{\\footnote second\\par}\\par c",
        "a[1]b[2]\nc\n[1]  first\n[2] second\n",
    );
}

#[test]
fn a_row_whose_paragraphs_do_not_say_so_is_one() {
    for rtf in [
        "\\trowd\\cellx1000\\cellx2000 A\\cell B\\cell\\row",
        "\\trowd\\cellx1000\\cellx2000\\pard A\\cell B\\cell\\row",
        "{\\trowd\\cellx1000\\cellx2000}A\\cell B\\cell\\row",
        "A\\cell B\\cell{\\trowd\\cellx1000\\cellx2000\\row}",
    ] {
        is_read(&format!("{rtf}\\pard end"), "A\tB\nend\n");
        is_read(&format!("x\\par {rtf}{rtf}\\pard end"), "x\nA\tB\nA\tB\nend\n");
    }
    is_read("\\trowd\\cellx1 A\\par more\\cell B\\cell\\row\\pard end", "A more\tB\nend\n");
    is_read("a{\\footnote x\\cell y\\cell\\row}", "a[1]\n[1] x\ty\n");
}

#[test]
fn what_is_not_shown_is_left_out() {
    for (rtf, read) in [
        (
            "{\\info{\\title no}}{\\stylesheet{\\s0 no;}}{\\*\\generator no;}{\\header no}{\\pict 00ff}a",
            "a\n",
        ),
        (
            "a{\\deleted no\\par}{\\v no}{\\deleted no\\plain yes}\\deleted no\\deleted0 b",
            "ayesb\n",
        ),
        ("{\\field{\\*\\fldinst HYPERLINK \"no\"}{\\fldrslt link}}", "link\n"),
        ("{\\shp{\\*\\shpinst{\\sp{\\sn no}{\\sv no}}{\\shptxt box}}}", "box\n"),
        ("a\\~b\\_c\\-d\\emdash e\\tab f\\line g\\{\\}\\\\", "a\u{a0}b-cd—e\tf\ng{}\\\n"),
        ("a\\bin3 {}\\b", "ab\n"),
        ("a\\\nb\r\nc", "a\nbc\n"),
    ] {
        is_read(rtf, read);
    }
}

#[test]
fn paragraphs_of_lists_have_their_numbers_and_bullets() {
    is_read(
        "{\\listtext\\pard\\plain 1.\\tab}one\\par{\\pntext\\f0 b)\\tab}two\\tab x\\par",
        "1. one\nb) two\tx\n",
    );
    is_read("{\\listtext\\f3\\'b7\\tab}a\\par{\\listtext\\f9\\'a7\\tab}\\'a71\\par", "• a\n• §1\n");
    // In a cell, too.
    is_read(
        "\\trowd\\pard\\intbl{\\listtext\\pard\\plain 1.\\tab}one\\cell two\\cell\\row\\pard end\\par",
        "1. one\ttwo\nend\n",
    );
    // What Unicode has for private use is a bullet of a font of symbols, too.
    is_read("{\\listtext\\u-3913\\'b7\\tab}a", "• a\n");
}

#[test]
fn hostile_files_are_read_or_refused() {
    for (rtf, says) in [("PK", "no RTF"), ("", "no RTF")] {
        assert!(text(rtf.as_bytes()).unwrap_err().message().contains(says));
    }
    let deep = format!("{{\\rtf1 {}", "{".repeat(MAX_DEPTH));
    assert!(text(deep.as_bytes()).unwrap_err().message().contains("nested too deep"));
    for part in [
        "\\bin2147483647 a",
        "\\bin-1 a",
        "\\u\\uc99999999999 a",
        "}a",
        "\\'",
        "\\'z",
        "\\",
        "\\*",
        "\\cell",
        "\\row\\cell",
        "\\f-1\\'e9",
        "\\footnote",
        "{\\fonttbl",
    ] {
        for times in [1, 500] {
            let _ = text(format!("{{\\rtf1 {}", part.repeat(times)).as_bytes());
        }
    }
}
