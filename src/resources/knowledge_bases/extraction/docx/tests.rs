//! What is read of DOCX files.

use super::super::testing::{archive, relationships};
use super::*;

/// The text of a document with this body, and these notes.
fn read(body: &str, footnotes: &str, endnotes: &str) -> String {
    let document = format!(r#"<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>"#);
    let footnotes = format!(r#"<w:footnotes xmlns:w="w">{footnotes}</w:footnotes>"#);
    let endnotes = format!(r#"<w:endnotes xmlns:w="w">{endnotes}</w:endnotes>"#);
    let own = [("a", "footnotes", "footnotes.xml"), ("b", "endnotes", "/word/ends.xml")];
    let file = archive(&[
        ("_rels/.rels", &relationships(&[("a", "officeDocument", "word/main.xml")])),
        ("word/_rels/main.xml.rels", &relationships(&own)),
        ("word/main.xml", &document),
        ("word/footnotes.xml", &footnotes),
        ("word/ends.xml", &endnotes),
    ]);
    text(&file).unwrap().text
}

fn body(body: &str) -> String {
    read(body, "", "")
}

/// A paragraph with this text.
fn p(text: &str) -> String {
    format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")
}

fn cell(content: &str) -> String {
    format!("<w:tc><w:tcPr/>{content}</w:tc>")
}

fn row(cells: &[String]) -> String {
    format!("<w:tr><w:trPr/>{}</w:tr>", cells.concat())
}

fn table(rows: &[String]) -> String {
    format!("<w:tbl><w:tblPr/>{}</w:tbl>", rows.concat())
}

#[test]
fn a_row_is_a_line_with_tabs_between_its_cells() {
    let first = row(&[cell(&p("A1")), cell(&format!("{}{}", p("B1"), p("more")))]);
    let second = row(&[cell(&p("A2")), cell(&p(""))]);
    let whole = format!("{}{}{}", p("Before"), table(&[first.clone(), second]), p("After"));
    assert_eq!(body(&whole), "Before\nA1\tB1 more\nA2\nAfter\n");
    // A table in a table: what is around it are lines.
    let outer = row(&[cell(&p("left")), cell(&format!("{}{}", table(&[first]), p("below")))]);
    assert_eq!(
        body(&format!("{}{}", table(&[outer]), p("After"))),
        "left\nA1\tB1 more\nbelow\nAfter\n"
    );
}

#[test]
fn tracked_changes_are_accepted() {
    let run = |text: &str| format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>");
    let deleted = "<w:del><w:r><w:delText>deleted</w:delText><w:tab/></w:r></w:del>";
    let moved = format!("<w:moveFrom>{}</w:moveFrom>", run("moved"));
    let kept = format!("<w:ins>{}</w:ins><w:moveTo>{}</w:moveTo>", run("new"), run(" moved"));
    assert_eq!(body(&format!("<w:p>{deleted}{moved}{kept}</w:p>")), "new moved\n");
    // A deleted mark joins two paragraphs; an inserted one is a mark.
    for (mark, text) in [("del", "onetwo\n"), ("moveFrom", "onetwo\n"), ("ins", "one\ntwo\n")] {
        let marked = format!("<w:p><w:pPr><w:rPr><w:{mark}/></w:rPr></w:pPr>{}</w:p>", run("one"));
        assert_eq!(body(&format!("{marked}{}", p("two"))), text);
    }
    let gone = format!("<w:tr><w:trPr><w:del/></w:trPr>{}</w:tr>", cell(&p("gone")));
    let left = row(&[cell(&p("A")), cell(&p("B"))]);
    let no_cell = format!("<w:tc><w:tcPr><w:cellDel/></w:tcPr>{}</w:tc>", p("gone"));
    let last = row(&[cell(&p("C")), no_cell, cell(&p("D"))]);
    assert_eq!(body(&table(&[gone, left, last])), "A\tB\nC\t\tD\n");
}

#[test]
fn notes_are_at_the_end_with_their_numbers() {
    let at = |kind: &str, id: u32| format!("<w:r><w:{kind}Reference w:id=\"{id}\"/></w:r>");
    let of = |kind: &str, id: i32, text: &str| {
        let mark = format!("<w:r><w:{kind}Ref/></w:r><w:r><w:t>{text}</w:t></w:r>");
        format!("<w:{kind} w:id=\"{id}\"><w:p>{mark}</w:p></w:{kind}>")
    };
    let text = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let notes = [at("footnote", 5), text("two"), at("footnote", 2), at("endnote", 1)].concat();
    let read = read(
        &format!("<w:p>{}{notes}</w:p>", text("one")),
        &[of("footnote", -1, "line"), of("footnote", 5, "first"), of("footnote", 2, "second")]
            .concat(),
        &of("endnote", 1, "last"),
    );
    assert_eq!(read, "one[1]two[2][i]\n[1] first\n[2] second\n[i] last\n");
}

#[test]
fn what_is_not_shown_is_left_out() {
    for (content, text) in [
        // Tab stops are no tabs.
        (
            "<w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r>",
            "a\tb",
        ),
        (
            "<w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:softHyphen/><w:t>d</w:t></w:r>",
            "a\nb-cd",
        ),
        (
            "<w:r><w:rPr><w:vanish/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:t>b</w:t></w:r>",
            "b",
        ),
        (
            "<w:r><w:sym w:font=\"Symbol\" w:char=\"F06D\"/><w:sym w:font=\"Wingdings\" w:char=\"F0FE\"/></w:r><w:r><w:sym w:font=\"Wingdings\" w:char=\"F04A\"/></w:r>",
            "μ☑",
        ),
        // A field in the instruction of another one.
        (
            "<w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText>IF</w:instrText></w:r><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>no</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>yes</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:t>!</w:t></w:r>",
            "yes!",
        ),
        (
            "<w:r><mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent><w:t>text</w:t></w:r>",
            "box\ntext",
        ),
    ] {
        assert_eq!(body(&format!("<w:p>{content}</w:p>")), format!("{text}\n"), "{content}");
    }
    // A field without a result hides no more than its paragraph.
    let open = "<w:p><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:t>no</w:t></w:r></w:p>";
    assert_eq!(body(&format!("{open}{}", p("yes"))), "\nyes\n");
}

#[test]
fn a_document_without_relationships_is_found_by_its_name() {
    for name in ["word/document.xml", "word\\document2.xml"] {
        let file =
            archive(&[("word/other.xml", "<a/>"), (name, "<w:p><w:r><w:t>a</w:t></w:r></w:p>")]);
        assert_eq!(text(&file).unwrap().text, "a\n");
    }
    let other = text(&archive(&[("xl/workbook.xml", "<a/>")])).unwrap_err();
    assert!(other.message().contains("no DOCX"), "{other}");
}

/// The numbers in a document with these lists and styles, and a paragraph for each of these properties.
fn numbered(lists: &str, styles: &str, paragraphs: &[&str]) -> String {
    let p = |properties: &&str| {
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>x</w:t></w:r></w:p>")
    };
    let body: String = paragraphs.iter().map(p).collect();
    let read = of_lists(lists, styles, &body).text;
    read.trim_end().replace(" x", "").replace('\n', " ")
}

/// What is read of a document with these lists, styles and body.
fn of_lists(lists: &str, styles: &str, body: &str) -> Extracted {
    let own = [("a", "numbering", "numbering.xml"), ("b", "styles", "styles.xml")];
    let file = archive(&[
        ("word/document.xml", &format!("<w:document><w:body>{body}</w:body></w:document>")),
        ("word/_rels/document.xml.rels", &relationships(&own)),
        ("word/numbering.xml", &format!("<w:numbering>{lists}</w:numbering>")),
        ("word/styles.xml", &format!("<w:styles>{styles}</w:styles>")),
    ]);
    text(&file).unwrap()
}

fn level(at: usize, format: &str, text: &str, more: &str) -> String {
    format!(
        "<w:lvl w:ilvl=\"{at}\"><w:start w:val=\"1\"/><w:numFmt w:val=\"{format}\"/>{more}<w:lvlText w:val=\"{text}\"/></w:lvl>"
    )
}

fn definition(id: u32, levels: &[String]) -> String {
    let levels = levels.concat();
    format!("<w:abstractNum w:abstractNumId=\"{id}\">{levels}</w:abstractNum>")
}

fn instance(id: u32, definition: u32, more: &str) -> String {
    format!("<w:num w:numId=\"{id}\"><w:abstractNumId w:val=\"{definition}\"/>{more}</w:num>")
}

/// The property of a paragraph on this level of a list.
fn on(list: u32, level: usize) -> String {
    format!("<w:numPr><w:ilvl w:val=\"{level}\"/><w:numId w:val=\"{list}\"/></w:numPr>")
}

#[test]
fn paragraphs_of_lists_have_their_numbers() {
    let levels = [
        level(0, "decimal", "%1.", ""),
        level(1, "lowerLetter", "%1.%2)", ""),
        level(2, "upperRoman", "§ %3", "<w:isLgl w:val=\"0\"/>"),
    ];
    let lists = definition(7, &levels) + &instance(1, 7, "") + &instance(2, 7, "");
    let [a, b, c, other] = [on(1, 0), on(1, 1), on(1, 2), on(2, 0)];
    let all = [&a, &b, &b, &c, &c, &b, &a, &b, &c, "", &other, &b, &on(0, 0), &on(9, 0), &on(1, 9)];
    assert_eq!(
        numbered(&lists, "", &all),
        "1. 1.a) 1.b) § I § II 1.c) 2. 2.a) § I x 3. 3.a) x x x"
    );
    // One that begins below the first level.
    assert_eq!(numbered(&lists, "", &[&b, &a, &b]), "1.a) 1. 1.a)");
}

#[test]
fn a_list_begins_where_it_says() {
    let never = level(1, "decimal", "%2", "<w:lvlRestart w:val=\"0\"/>");
    let levels = [level(0, "decimal", "%1", ""), never, level(2, "decimal", "%1.%2.%3", "")];
    let start = "<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"5\"/></w:lvlOverride>";
    let own = level(0, "upperLetter", "%1!", "");
    let own = format!("<w:lvlOverride w:ilvl=\"0\">{own}</w:lvlOverride>");
    let lists = definition(1, &levels)
        + &instance(1, 1, "")
        + &instance(2, 1, start)
        + &instance(3, 1, &own);
    let [a, b, c] = [on(1, 0), on(1, 1), on(1, 2)];
    assert_eq!(numbered(&lists, "", &[&a, &b, &a, &b, &c, &a, &c]), "1 1 2 2 2.2.1 3 3.2.1");
    let [five, letter] = [on(2, 0), on(3, 0)];
    assert_eq!(numbered(&lists, "", &[&a, &five, &five, &a, &letter]), "1 5 6 7 H!");
}

#[test]
fn numbers_are_in_their_formats() {
    for (format, number, shown) in [
        ("decimalZero", 7, "07"),
        ("lowerRoman", 1994, "mcmxciv"),
        ("upperLetter", 28, "BB"),
        ("ordinal", 12, "12th"),
        ("ordinal", 22, "22nd"),
        ("none", 3, "()"),
        ("hebrew1", 3, "(3)"),
    ] {
        let start = format!("<w:start w:val=\"{number}\"/>");
        let text = if shown.contains('(') { "(%1)" } else { "%1" };
        let lists = definition(1, &[level(0, format, text, &start)]) + &instance(1, 1, "");
        assert_eq!(numbered(&lists, "", &[&on(1, 0)]), shown, "{format}");
    }
    let own = "<mc:AlternateContent><mc:Choice><w:numFmt w:val=\"custom\" w:format=\"001, 002, ...\"/></mc:Choice><mc:Fallback><w:numFmt w:val=\"lowerRoman\"/></mc:Fallback></mc:AlternateContent>";
    let legal = level(1, "lowerLetter", "%1.%2", "<w:isLgl/>");
    let close = level(2, "bullet", "-", "<w:suff w:val=\"nothing\"/>");
    let lists =
        definition(1, &[level(0, "decimal", "%1", own), legal, close]) + &instance(1, 1, "");
    assert_eq!(numbered(&lists, "", &[&on(1, 0), &on(1, 1), &on(1, 2)]), "001 1.1 -x");
    for (written, shown) in
        [("&#xF0B7;", "•"), ("o", "◦"), ("–", "–"), ("&#xF0A7;", "•"), ("no", "no")]
    {
        let lists = definition(1, &[level(0, "bullet", written, "")]) + &instance(1, 1, "");
        assert_eq!(numbered(&lists, "", &[&on(1, 0)]), shown, "{written}");
    }
    let hidden = level(0, "decimal", "%1", "<w:rPr><w:vanish/></w:rPr>");
    assert_eq!(numbered(&(definition(1, &[hidden]) + &instance(1, 1, "")), "", &[&on(1, 0)]), "x");
}

#[test]
fn styles_put_paragraphs_on_lists() {
    let style = |id: &str, based_on: &str, properties: &str| {
        format!(
            "<w:style w:styleId=\"{id}\"><w:basedOn w:val=\"{based_on}\"/><w:pPr>{properties}</w:pPr></w:style>"
        )
    };
    let list = "<w:numPr><w:numId w:val=\"1\"/></w:numPr>";
    let none = "<w:numPr><w:numId w:val=\"0\"/></w:numPr>";
    let styles = style("One", "", list)
        + &style("Two", "One", list)
        + &style("Three", "Two", "<w:jc/>")
        + &style("Not", "One", none)
        + &style("Loop", "Loop", "")
        + &style("Linked", "", "<w:numPr><w:numId w:val=\"2\"/></w:numPr>");
    let of = |style: &str| format!("<w:pStyle w:val=\"{style}\"/>");
    let levels = [level(0, "decimal", "%1", &of("One")), level(1, "decimal", "%1.%2", &of("Two"))];
    let link =
        "<w:abstractNum w:abstractNumId=\"3\"><w:numStyleLink w:val=\"Linked\"/></w:abstractNum>";
    let lists = definition(1, &levels)
        + &definition(2, &[level(0, "lowerLetter", "%1)", "")])
        + link
        + &instance(1, 1, "")
        + &instance(2, 2, "")
        + &instance(3, 3, "");
    let [one, two, three, not, looped] = ["One", "Two", "Three", "Not", "Loop"].map(of);
    let own = format!("{one}{}", on(2, 0));
    assert_eq!(
        numbered(&lists, &styles, &[&one, &two, &three, &not, &looped, &own, &on(3, 0), &one]),
        "1 1.1 1.2 x x a) b) 2"
    );
    // A list that begins anew goes on by its style; so does one that the style begins.
    let begins = |start: u32| {
        format!("<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"{start}\"/></w:lvlOverride>")
    };
    let again = lists.clone() + &instance(4, 3, &begins(1)) + &instance(5, 3, "");
    let [linked, anew, other] = [on(3, 0), on(4, 0), on(5, 0)];
    assert_eq!(
        numbered(&again, &styles, &[&linked, &linked, &anew, &anew, &linked, &other]),
        "a) b) a) b) c) d)"
    );
    let again = again.replace(&instance(2, 2, ""), &instance(2, 2, &begins(5)));
    assert_eq!(numbered(&again, &styles, &[&linked, &other, &anew, &on(2, 0)]), "e) f) a) b)");
    // A link that leads to itself.
    let looped =
        "<w:abstractNum w:abstractNumId=\"1\"><w:numStyleLink w:val=\"One\"/></w:abstractNum>";
    assert_eq!(numbered(&(looped.to_string() + &instance(1, 1, "")), &styles, &[&one]), "x");
}

#[test]
fn deleted_and_hidden_paragraphs_are_not_counted() {
    let lists = definition(1, &[level(0, "decimal", "%1.", "")]) + &instance(1, 1, "");
    let a = on(1, 0);
    let deleted = format!("{a}<w:rPr><w:del/></w:rPr>");
    let hidden = format!("{a}<w:rPr><w:vanish/></w:rPr>");
    let before = format!("<w:pPrChange><w:pPr>{a}</w:pPr></w:pPrChange>");
    assert_eq!(numbered(&lists, "", &[&a, &hidden, &before, &a]), "1. x x 2.");
    // What goes on with the next one is numbered once, before the first text.
    assert_eq!(numbered(&lists, "", &[&a, &deleted, &deleted, &a, &a]), "1. 2.xx 3.");
    let p = |properties: &str, runs: &str| format!("<w:p><w:pPr>{properties}</w:pPr>{runs}</w:p>");
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let gone = "<w:del><w:r><w:delText>B</w:delText></w:r></w:del>";
    let of = |paragraphs: &[String]| of_lists(&lists, "", &paragraphs.concat()).text;
    let (first, last) = (p(&a, &run("A")), p(&a, &run("C")));
    assert_eq!(of(&[first.clone(), p(&deleted, gone), last.clone()]), "1. A\n2. C\n");
    let none = "<w:rPr><w:del/></w:rPr>";
    assert_eq!(of(&[first.clone(), p(none, gone), last.clone()]), "1. A\n2. C\n");
    // The number of a text without one counts, as that of an item without text does.
    assert_eq!(of(&[p(none, &run("A")), last.clone(), last.clone()]), "AC\n2. C\n");
    assert_eq!(of(&[p(&a, ""), last.clone()]), "1.\n2. C\n");
}

#[test]
fn damaged_lists_and_styles_are_left_out_and_the_answer_says_so() {
    let lists = definition(1, &[level(0, "decimal", "%1.", "")]) + &instance(1, 1, "");
    let body = format!("<w:p><w:pPr>{}</w:pPr><w:r><w:t>x</w:t></w:r></w:p>", on(1, 0));
    let whole = of_lists(&lists, "", &body);
    assert_eq!(whole, "1. x\n".to_string().into());
    for broken in ["<w:p>", "</w:q>", "&a;"] {
        let read = of_lists(&lists, broken, &body);
        assert_eq!(read.text, "1. x\n");
        assert_eq!(
            read.left_out,
            ["the styles are damaged: numbers and bullets of lists may be missing"]
        );
        let read = of_lists(&format!("{lists}{broken}"), "", &body);
        assert_eq!(read.text, "x\n");
        assert_eq!(
            read.left_out,
            ["the lists are damaged: their numbers and bullets are left out"]
        );
    }
}

#[test]
fn lists_beyond_ten_thousand_are_left_out() {
    let all: String = (1..=10_001).map(|id| instance(id, 1, "")).collect();
    let lists = definition(1, &[level(0, "decimal", "%1.", "")]) + &all;
    assert_eq!(numbered(&lists, "", &[&on(10_000, 0), &on(10_001, 0)]), "1. x");
}

#[test]
fn damaged_notes_and_references_are_left_out_and_the_answer_says_so() {
    let reference = |kind: &str| format!("<w:r><w:{kind}Reference w:id=\"1\"/></w:r>");
    let body = format!(
        "<w:p><w:r><w:t>x</w:t></w:r>{}{}</w:p>",
        reference("footnote"),
        reference("endnote")
    );
    let note = |kind: &str| {
        format!("<n><w:{kind}s><w:{kind} w:id=\"1\">{}</w:{kind}></w:{kind}s></n>", p(kind))
    };
    let own = [("a", "footnotes", "foot.xml"), ("b", "endnotes", "end.xml")];
    let parts: [(&str, String); 5] = [
        ("_rels/.rels", relationships(&[("a", "officeDocument", "word/document.xml")])),
        ("word/_rels/document.xml.rels", relationships(&own)),
        ("word/document.xml", format!("<d>{body}</d>")),
        ("word/foot.xml", note("footnote")),
        ("word/end.xml", note("endnote")),
    ];
    let read = |damaged: &str, how: &str| {
        let files = parts
            .iter()
            .map(|(name, content)| (*name, if *name == damaged { how } else { content.as_str() }));
        text(&archive(&files.collect::<Vec<_>>())).unwrap()
    };
    let whole = "x[1][i]\n[1] footnote\n[i] endnote\n";
    assert_eq!(read("", ""), whole.to_string().into());
    for how in [
        "<a><b>",
        "<w:footnotes><w:footnote w:id=\"1\"><w:tbl><w:tr><w:tc><w:p><w:r><w:fldChar w:fldCharType=\"begin\"/></q>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>",
    ] {
        assert_eq!(read("_rels/.rels", how), whole.to_string().into());
        for (part, gone, said) in [
            ("word/foot.xml", "[1] footnote\n", "the footnotes are damaged and left out"),
            ("word/end.xml", "[i] endnote\n", "the endnotes are damaged and left out"),
            (
                "word/_rels/document.xml.rels",
                "[1] footnote\n[i] endnote\n",
                "the references of the document are damaged: its notes, its charts, and the numbers and \
                 bullets of its lists are left out",
            ),
        ] {
            let read = read(part, how);
            assert_eq!(
                (read.text, &read.left_out[..]),
                (whole.replace(gone, ""), &[said.into()][..])
            );
        }
    }
}

#[test]
fn what_is_missing_is_as_good_as_damaged() {
    let references = "the references of the document are damaged: its notes, its charts, and the \
                      numbers and bullets of its lists are left out";
    let [notes, ends] = ["footnote", "endnote"].map(|kind| {
        let shown = format!("<w:p><w:r><w:t>x</w:t><w:{kind}Reference w:id=\"1\"/></w:r></w:p>");
        (shown, format!("the {kind}s are damaged and left out"))
    });
    let chart =
        "<w:p><w:r><w:t>x</w:t><a:graphicData><c:chart r:id=\"c\"/></a:graphicData></w:r></w:p>";
    let list = format!("<w:p><w:pPr>{}</w:pPr><w:r><w:t>x</w:t></w:r></w:p>", on(1, 0));
    let (no_chart, no_lists) = (
        "a chart is damaged and left out",
        "the lists are damaged: their numbers and bullets are left out",
    );
    let styles = "the styles are damaged: numbers and bullets of lists may be missing";
    let other = [("z", "settings", "settings.xml")];
    for (body, kind, text_of, said) in [
        (notes.0.as_str(), "footnotes", "x[1]\n", notes.1.as_str()),
        (&ends.0, "endnotes", "x[i]\n", &ends.1),
        (chart, "chart", "x\n", no_chart),
        (&list, "numbering", "x\n", no_lists),
        (&p("x"), "styles", "x\n", styles),
    ] {
        let read = |references: Option<&[(&str, &str, &str)]>| {
            let document = format!("<d>{body}</d>");
            let references = references.map(relationships);
            let mut files = vec![("word/document.xml", document.as_str())];
            files.extend(
                references.iter().map(|part| ("word/_rels/document.xml.rels", part.as_str())),
            );
            let read = text(&archive(&files)).unwrap();
            assert_eq!(read.text, text_of);
            read.left_out
        };
        // The part is not in the file; nothing says where it is; nothing says where anything is.
        assert_eq!(read(Some(&[("c", kind, "none.xml")])), [said]);
        let in_text = !matches!(kind, "styles" | "numbering");
        let said: &[&str] = if in_text { &[said] } else { &[] };
        assert_eq!(read(Some(&other)), said);
        let said: &[&str] = if kind == "styles" { &[] } else { &[references] };
        assert_eq!(read(None), said);
    }
    // One of several notes.
    let document = format!("<d>{}{}</d>", notes.0, notes.0.replace("\"1\"", "\"2\""));
    let of_notes =
        format!("<f><w:footnotes><w:footnote w:id=\"2\">{}</w:footnote></w:footnotes></f>", p("y"));
    let read = text(&archive(&[
        ("word/document.xml", &document),
        ("word/_rels/document.xml.rels", &relationships(&[("a", "footnotes", "f.xml")])),
        ("word/f.xml", &of_notes),
    ]));
    let read = read.unwrap();
    assert_eq!(read.text, "x[1]\nx[2]\n[2] y\n");
    assert_eq!(read.left_out, ["footnotes that are damaged are left out"]);
    let embedded = format!("<d>{}<w:altChunk r:id=\"a\"/></d>", p("x"));
    let own = relationships(&[("a", "aFChunk", "a.html")]);
    let read = text(&archive(&[
        ("word/document.xml", &embedded),
        ("word/_rels/document.xml.rels", &own),
        ("word/a.html", "<p>y"),
    ]));
    assert_eq!(read.unwrap().left_out, [OTHERS]);
}

#[test]
fn the_pronunciation_of_ruby_is_left_out() {
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let ruby = |base: &str, read: &str| {
        let (base, read) = (run(base), run(read));
        format!(
            "<w:r><w:ruby><w:rubyPr/><w:rt>{read}</w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby></w:r>"
        )
    };
    let whole = format!("<w:p>{}{}{}</w:p>", ruby("東", "とう"), ruby("京", "きょう"), run("へ"));
    assert_eq!(body(&whole), "東京へ\n");
}
