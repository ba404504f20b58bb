//! The control words of RTF that name something: destinations, characters and code pages.

use encoding_rs::Encoding;

use super::super::charset::of_code_page;

/// Destinations whose text is not that of the document, and that are not marked as such with `\*`.
pub const SKIPPED: [&str; 30] = [
    "annotation",
    "atnid",
    "author",
    "colortbl",
    "comment",
    "datafield",
    "fldinst",
    "filetbl",
    "footer",
    "footerf",
    "footerl",
    "footerr",
    "header",
    "headerf",
    "headerl",
    "headerr",
    "info",
    "keywords",
    "mmathPict",
    "nonesttables",
    "nonshppict",
    "objdata",
    "pict",
    "rxe",
    "sp",
    "stylesheet",
    "tc",
    "template",
    "txe",
    "xe",
];

/// Destinations that are marked with `\*`, but have text of the document.
pub const SHOWN: [&str; 4] = ["moMath", "moMathPara", "shpinst", "shptxt"];

/// The text for which a control word stands; none for most.
pub fn written(word: &str) -> &'static str {
    match word {
        "tab" => "\t",
        "nestcell" | "emspace" | "enspace" | "qmspace" => " ",
        "emdash" => "—",
        "endash" => "–",
        "lquote" => "‘",
        "rquote" => "’",
        "ldblquote" => "“",
        "rdblquote" => "”",
        "bullet" => "•",
        _ => "",
    }
}

/// The encoding of a font by the number of its character set; none for the one of the file.
pub fn of_charset(charset: i32) -> Option<&'static Encoding> {
    let code_page = match charset {
        77 => 10_000,
        128 => 932,
        129 => 949,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    };
    Some(of_code_page(code_page))
}
