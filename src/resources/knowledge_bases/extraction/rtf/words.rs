//! The control words of RTF that name something: destinations and characters.

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
