//! What is read of XLSX files.

use super::super::testing::{archive, relationships};
use super::*;

/// The text of a file with two sheets, of which the first has these rows.
fn read(rows: &str, has_1904: &str) -> String {
    let strings = "<sst><si><t>one</t><rPh><t>no</t></rPh></si><si/><si><r><t>t</t></r><r><t>wo</t></r></si></sst>";
    let styles = r##"<styleSheet><numFmts><numFmt numFmtId="164" formatCode="[$-407]d.\ mmm;@"/><numFmt numFmtId="165" formatCode="[h]:mm"/><numFmt numFmtId="166" formatCode="0.0&quot;days&quot;"/></numFmts>
        <cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="20"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="166"/></cellXfs></styleSheet>"##;
    let sheets = r#"<sheet name="Tides &amp; berths" sheetId="1" r:id="b"/><sheet name="Empty" r:id="c"/><sheet name="Last" r:id="a"/>"#;
    text(&archive(&[
        ("_rels/.rels", &relationships(&[("a", "officeDocument", "xl/workbook.xml")])),
        ("xl/workbook.xml", &format!("<workbook><workbookPr date1904=\"{has_1904}\"/><sheets>{sheets}</sheets></workbook>")),
        ("xl/_rels/workbook.xml.rels", &relationships(&[
            ("a", "worksheet", "worksheets/sheet1.xml"), ("b", "worksheet", "worksheets/sheet2.xml"), ("c", "worksheet", "worksheets/sheet3.xml"),
            ("d", "sharedStrings", "sharedStrings.xml"), ("e", "styles", "styles.xml"),
        ])),
        ("xl/sharedStrings.xml", strings),
        ("xl/styles.xml", styles),
        ("xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c t=\"inlineStr\"><is><t>end</t></is></c></row></sheetData></worksheet>"),
        ("xl/worksheets/sheet2.xml", &format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")),
        ("xl/worksheets/sheet3.xml", "<worksheet><sheetData><row><c/></row></sheetData></worksheet>"),
    ]))
    .unwrap()
    .text
}

/// What a cell with these attributes and this content shows.
fn shown(attributes: &str, content: &str, has_1904: &str) -> String {
    let read = read(&format!("<row><c {attributes}>{content}</c></row>"), has_1904);
    let row = read.strip_prefix("Tides & berths\n").unwrap();
    row.strip_suffix("\n\u{c}Last\nend\n").unwrap().into()
}

#[test]
fn sheets_are_in_their_order_with_a_line_for_each_row() {
    let rows = r#"<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>2</v></c></row><row r="5"><c><v>1</v></c><c><f>1+1</f><v>2</v></c><c t="s"><v>1</v></c></row>"#;
    assert_eq!(read(rows, "0"), "Tides & berths\none\t\ttwo\n1\t2\n\u{c}Last\nend\n");
}

#[test]
fn a_cell_shows_its_value() {
    for (attributes, value, text) in [
        ("t=\"b\"", "1", "TRUE"),
        ("t=\"e\"", "#DIV/0!", "#DIV/0!"),
        ("t=\"str\"", "a\nb", "a\nb"),
        ("t=\"d\"", "2024-02-29", "2024-02-29"),
        ("", "0.10000000000000001", "0.1"),
        ("", "1E+300", "1E+300"),
        ("", "12345678901234567890", "12345678901234567890"),
        ("s=\"1\"", "45351", "2024-02-29"),
        ("s=\"1\"", "1", "1900-01-01"),
        ("s=\"1\"", "61", "1900-03-01"),
        ("s=\"2\"", "45351.75", "2024-02-29 18:00:00"),
        ("s=\"2\"", "45351", "2024-02-29"),
        ("s=\"3\"", "45351.25", "06:00:00"),
        ("s=\"4\"", "45351", "2024-02-29"),
        ("s=\"5\"", "1.25", "30:00:00"),
        ("s=\"6\"", "1.5", "1.5"),
        ("s=\"1\"", "-1", "-1"),
        ("s=\"1\"", "1E+18", "1E+18"),
        ("s=\"1\"", "text", "text"),
        ("s=\"99\"", "1", "1"),
    ] {
        assert_eq!(
            shown(attributes, &format!("<v>{value}</v>"), "0"),
            text,
            "{attributes} {value}"
        );
    }
    assert_eq!(shown("s=\"1\"", "<v>43889</v>", "1"), "2024-02-29");
}

#[test]
fn cells_far_apart_are_a_few_tabs_apart() {
    let row =
        r#"<row r="1048576"><c r="A1048576"><v>1</v></c><c r="XFD1048576"><v>2</v></c></row>"#;
    let read = read(&row.repeat(3), "0");
    assert_eq!(read.matches('\t').count(), 3 * (MAX_EMPTY + 1));
    for wrong in ["XFE1", "ZZZZZZZZZZZZZZZZZZZ1", "1", "", "99999999999999999999"] {
        assert_eq!(column(wrong), None, "{wrong}");
    }
    assert_eq!((column("A1"), column("XFD9"), column("ab")), (Some(0), Some(16_383), Some(27)));
    // A string that there is not.
    assert_eq!(self::tests::read("<row><c t=\"s\"><v>3</v></c></row>", "0"), "Last\nend\n");
}

#[test]
fn what_is_damaged_beside_others_is_left_out_and_the_answer_says_so() {
    let ids = [
        ("a", "worksheet", "s/1.xml"),
        ("b", "worksheet", "s/2.xml"),
        ("c", "sharedStrings", "t.xml"),
        ("d", "styles", "styles.xml"),
    ];
    let sheets = r#"<sheet name="Ebb" r:id="a"/><sheet name="Flow" r:id="b"/>"#;
    let first = "<s><row><c t=\"s\"><v>0</v></c><c s=\"0\"><v>45351</v></c></row></s>";
    let parts: [(&str, String); 6] = [
        ("_rels/.rels", relationships(&[("a", "officeDocument", "xl/workbook.xml")])),
        ("xl/_rels/workbook.xml.rels", relationships(&ids)),
        ("xl/s/1.xml", first.into()),
        ("xl/s/2.xml", "<s><row><c><v>7</v></c></row></s>".into()),
        ("xl/t.xml", "<sst><si><t>one</t></si></sst>".into()),
        ("xl/styles.xml", "<s><cellXfs><xf numFmtId=\"14\"/></cellXfs></s>".into()),
    ];
    let read = |damaged: &str, how: &str| {
        let workbook = format!("<workbook><sheets>{sheets}</sheets></workbook>");
        let mut files = vec![("xl/workbook.xml", workbook.as_str())];
        for (name, content) in &parts {
            files.push((name, if *name == damaged { how } else { content }));
        }
        text(&archive(&files)).unwrap()
    };
    let whole = "Ebb\none\t2024-02-29\n\u{c}Flow\n7\n";
    assert_eq!(read("", ""), whole.to_string().into());
    for how in ["<a><b>", "<a></b>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "<s><row><c><v>1&x;"] {
        assert_eq!(read("_rels/.rels", how), whole.to_string().into());
        for (part, left, said) in [
            ("xl/s/1.xml", "Flow\n7\n", "sheet 1 is damaged and left out"),
            (
                "xl/t.xml",
                "Ebb\n2024-02-29\n\u{c}Flow\n7\n",
                "the texts that cells share are damaged: those cells are left out",
            ),
            (
                "xl/styles.xml",
                "Ebb\none\t45351\n\u{c}Flow\n7\n",
                "the styles are damaged: dates are the numbers of days that are stored",
            ),
        ] {
            let read = read(part, how);
            assert_eq!((read.text.as_str(), &read.left_out[..]), (left, &[said.into()][..]));
        }
    }
}

#[test]
fn sheets_whose_list_is_damaged_are_read_in_the_order_of_their_files() {
    let row = |n| format!("<s><row><c t=\"s\"><v>0</v></c><c><v>{n}</v></c></row></s>");
    let ids = relationships(&[("a", "worksheet", "worksheets/sheet2.xml")]);
    let said =
        "the list of the sheets is damaged: they have the order and the names of their files";
    let workbook = "<w><sheet name=\"A\" r:id=\"a\"/>";
    for (list, references) in [("<w/>", "<a><b>"), (workbook, &ids)] {
        let [second, tenth] = [2, 10].map(row);
        let mut files = vec![
            ("xl/workbook.xml", list),
            ("xl/_rels/workbook.xml.rels", references),
            ("xl/sharedStrings.xml", "<sst><si><t>one</t></si></sst>"),
        ];
        assert!(text(&archive(&files)).is_err(), "there is nothing to read");
        files.push(("xl/worksheets/sheet10.xml", &tenth));
        files.push(("xl/worksheets/sheet2.xml", &second));
        let read = text(&archive(&files)).unwrap();
        let expected = "sheet2\none\t2\n\u{c}sheet10\none\t10\n";
        assert_eq!((read.text.as_str(), &read.left_out[..]), (expected, &[said.into()][..]));
    }
}

#[test]
fn what_is_missing_is_as_good_as_damaged() {
    let sheets = r#"<sheet name="Ebb" r:id="a"/><sheet name="Macro" r:id="m"/><sheet name="Flow" r:id="b"/>"#;
    let workbook = format!("<workbook><sheets>{sheets}</sheets></workbook>");
    let all = [
        ("a", "worksheet", "s/1.xml"),
        ("b", "worksheet", "s/2.xml"),
        ("m", "xlMacrosheet", "s/3.xml"),
        ("c", "sharedStrings", "t.xml"),
        ("d", "styles", "styles.xml"),
    ];
    let (ids, less) = (relationships(&all), relationships(&all[..1]));
    let first = "<s><row><c t=\"s\"><v>0</v></c><c t=\"s\"/><c s=\"1\"><v>45351</v></c><c><v>7</v></c></row><drawing r:id=\"d\"/></s>";
    let parts = [
        ("xl/workbook.xml", workbook.as_str()),
        ("xl/_rels/workbook.xml.rels", &ids),
        ("xl/s/1.xml", first),
        ("xl/s/2.xml", "<s><row><c><v>8</v></c></row></s>"),
        ("xl/t.xml", "<sst><si><t>one</t></si></sst>"),
        ("xl/styles.xml", "<s><cellXfs><xf/><xf numFmtId=\"14\"/></cellXfs></s>"),
        ("xl/s/_rels/1.xml.rels", &relationships(&[("d", "drawing", "d.xml")])),
        ("xl/s/d.xml", "<d><graphicData><c:chart r:id=\"c\"/></graphicData></d>"),
        ("xl/s/_rels/d.xml.rels", &relationships(&[("c", "chart", "c.xml")])),
        ("xl/s/c.xml", "<c><title><r><t>Tide</t></r></title></c>"),
    ];
    let read = |missing: &str, other: Option<&str>| {
        let files = parts.iter().filter_map(|(name, content)| match other {
            Some(other) if *name == missing => Some((*name, other)),
            _ => (*name != missing).then_some((*name, *content)),
        });
        text(&archive(&files.collect::<Vec<_>>())).unwrap()
    };
    let whole = "Ebb\none\t2024-02-29\t7\nTide\n\u{c}Flow\n8\n";
    assert_eq!(read("", None), whole.to_string().into());
    let references = "the references of a sheet or drawing are damaged: its charts are left out";
    for (missing, other, left, said) in [
        (
            "xl/s/2.xml",
            None,
            "Ebb\none\t2024-02-29\t7\nTide\n",
            &["sheet 2 is damaged and left out"][..],
        ),
        ("xl/t.xml", None, "Ebb\n2024-02-29\t7\nTide\n\u{c}Flow\n8\n", &[STRINGS_MISSING]),
        (
            "xl/t.xml",
            Some("<sst/>"),
            "Ebb\n2024-02-29\t7\nTide\n\u{c}Flow\n8\n",
            &[STRINGS_MISSING],
        ),
        ("xl/styles.xml", None, "Ebb\none\t45351\t7\nTide\n\u{c}Flow\n8\n", &[STYLES_MISSING]),
        (
            "xl/s/c.xml",
            None,
            "Ebb\none\t2024-02-29\t7\n\u{c}Flow\n8\n",
            &["a chart is damaged and left out"],
        ),
        ("xl/s/_rels/1.xml.rels", None, "Ebb\none\t2024-02-29\t7\n\u{c}Flow\n8\n", &[references]),
        ("xl/s/_rels/d.xml.rels", None, "Ebb\none\t2024-02-29\t7\n\u{c}Flow\n8\n", &[references]),
        (
            "xl/_rels/workbook.xml.rels",
            Some(&less),
            "Ebb\n2024-02-29\t7\nTide\n",
            &["sheets 2 to 3 are damaged and left out", STRINGS_MISSING],
        ),
    ] {
        let read = read(missing, other);
        let said = said.iter().map(|said| said.to_string()).collect();
        assert_eq!((read.text.as_str(), read.left_out), (left, said), "{missing}");
    }
    // A drawing that shows no chart refers to nothing.
    let plain = relationships(&[("d", "drawing", "plain.xml")]);
    let mut files = parts[..6].to_vec();
    files.extend([("xl/s/_rels/1.xml.rels", plain.as_str()), ("xl/s/plain.xml", "<d/>")]);
    assert!(text(&archive(&files)).unwrap().left_out.is_empty());
    // Without any references the sheets are read that are where they usually are.
    let usual = [parts[0], ("xl/worksheets/sheet1.xml", parts[3].1)];
    let said =
        "the list of the sheets is damaged: they have the order and the names of their files";
    let read = text(&archive(&usual)).unwrap();
    assert_eq!((read.text.as_str(), read.left_out), ("sheet1\n8\n", vec![said.to_string()]));
}

#[test]
fn characters_that_are_written_by_their_codes_are_read() {
    let cells = r#"<row><c t="inlineStr"><is><r><t>a_x000D_</t></r><r><t>b_x00</t></r><r><t>41_</t></r></is></c>
        <c t="str"><v>c_x0041__x005F_x0041_</v></c><c t="s"><v>0</v></c><c t="s"><v>1</v></c><c><v>_x0041_</v></c></row>"#;
    let files = [
        ("xl/workbook.xml", r#"<w><sheet name="T_x0026_T" r:id="a"/></w>"#),
        ("xl/_rels/workbook.xml.rels", &relationships(&[("a", "worksheet", "s.xml")])),
        ("xl/s.xml", cells),
        (
            "xl/sharedStrings.xml",
            "<sst><si><t>x_x000D_\ny</t></si><si><r><t>_x00</t></r><r><t>e_x00E9_</t></r></si></sst>",
        ),
    ];
    let read = text(&archive(&files)).unwrap().text;
    assert_eq!(read, "T&T\na b_x0041_\tcA_x0041_\tx y\t_x00eé\t_x0041_\n");
    // A line break in a cell that is all of its row.
    let frame = [files[0], files[1], ("xl/s.xml", r#"<row><c t="str"><v>a_x000D_b</v></c></row>"#)];
    assert_eq!(text(&archive(&frame)).unwrap().text, "T&T\na\nb\n");
}
