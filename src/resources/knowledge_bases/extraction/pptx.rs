//! PPTX files (Office Open XML): slides with their notes.

use std::collections::HashSet;

use super::archive::{Archive, MAX_FILES, Next, Xml};
use super::chart::{self, Charts, Named};
use super::lines::Lines;
use super::package::{
    Listing, MISSING, all_of_kind, listed_or_usual, main_part, of_kind, relationships,
};
use super::text::{Damaged, Extracted, unless_damaged};
use crate::base::Result;

const FORMAT: &str = "PPTX";

/// Returns the text of a file: the slides in their order, with a form feed between two of them, and the
/// notes of each after it.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let name = main_part(&mut archive, "ppt/", "ppt/presentation.xml")?;
    if !archive.has(&name) {
        return Err(archive.other());
    }
    let list = |archive: &mut Archive| slides(archive, &name);
    let (slides, is_listed) =
        listed_or_usual(&mut archive, list, "ppt/slides/slide", |names| names)?;
    let (mut lines, mut charts) = (Lines::default(), Charts::default());
    let (mut damaged, mut left_out) = (Damaged::default(), Vec::new());
    if !is_listed {
        left_out
            .push("the list of the slides is damaged: they are in the order of their files".into());
    }
    for (number, slide) in (1..).zip(&slides) {
        if number > 1 {
            lines.end_page()?;
        }
        let read = part_text(&mut archive, slide);
        let SlideText { text, shown } = damaged.unless(number, read)?;
        lines.add(&text)?;
        if slide != MISSING {
            add_parts(&mut archive, slide, &shown, &mut lines, (&mut charts, &mut left_out))?;
        }
    }
    let slides = damaged.left_out("slide", "slides");
    let left_out = slides.into_iter().chain(left_out).chain(charts.left_out()).collect();
    Ok(Extracted { left_out, ..lines.finished()?.into() })
}

/// Adds the diagrams, charts and notes of a slide, which shows some of them by these ids.
fn add_parts(
    archive: &mut Archive,
    slide: &str,
    shown: &[Shown],
    lines: &mut Lines,
    (charts, left_out): (&mut Charts, &mut Vec<String>),
) -> Result<()> {
    let missing =
        "the references of a slide are damaged: its diagrams, charts and notes are left out";
    let of_diagrams = "diagrams that are damaged are left out";
    let parts = relationships(archive, slide);
    let is_read = parts.is_ok();
    let parts = unless_damaged(parts, left_out, missing)?;
    for diagram in all_of_kind(&parts, "diagramData") {
        let text = part_text(archive, diagram);
        lines.add(&unless_damaged(text, left_out, of_diagrams)?.text)?;
    }
    for (_, part) in chart::of(&parts) {
        let text = charts.text(archive, part, Named::All)?;
        lines.add(&text.unwrap_or_default())?;
    }
    if is_read {
        let ids: HashSet<&str> = parts.iter().map(|part| part.id.as_str()).collect();
        for missing in shown.iter().filter(|shown| !ids.contains(shown.id.as_str())) {
            if missing.is_chart {
                charts.add_missing(1);
            } else {
                unless_damaged::<()>(Err(archive.missing()), left_out, of_diagrams)?;
            }
        }
    }
    if let Some(notes) = of_kind(&parts, "notesSlide") {
        let text = part_text(archive, notes);
        let missing = "notes of slides that are damaged are left out";
        lines.add(&unless_damaged(text, left_out, missing)?.text)?;
    }
    Ok(())
}

/// The parts with the slides of a presentation, in their order.
fn slides(archive: &mut Archive, presentation: &str) -> Result<Vec<String>> {
    let mut listing = Listing::new(relationships(archive, presentation)?, |kind| kind == "slide");
    let mut order = Vec::new();
    let Some(mut xml) = archive.xml(presentation)? else { return Ok(order) };
    while xml.next_start()? {
        // A section lists its slides by their numbers, once more.
        if xml.name() == "sldId" && xml.above(2) != "section" {
            // It has two ids: `r:id`, and a number before or after it. Each slide is read once.
            let ids = xml.attributes().filter(|(name, _)| name == "id");
            order.extend(listing.take(ids.map(|(_, id)| id)));
        }
    }
    drop(xml);
    if listing.is_lost() { Err(archive.missing()) } else { Ok(order) }
}

/// The text of a slide, of its notes or of a diagram.
#[derive(Default)]
struct SlideText {
    text: String,
    /// At most as many as a file has parts.
    shown: Vec<Shown>,
}

/// A chart or diagram that a slide shows.
struct Shown {
    is_chart: bool,
    id: String,
}

fn part_text(archive: &mut Archive, part: &str) -> Result<SlideText> {
    let (mut lines, mut shown) = (Lines::default(), Vec::new());
    read(archive.referred(part)?, &mut lines, &mut shown)?;
    Ok(SlideText { text: lines.finished()?, shown })
}

/// Reads the shapes of a slide, or of its notes.
fn read(mut xml: Xml, lines: &mut Lines, shown: &mut Vec<Shown>) -> Result<()> {
    loop {
        match xml.step()? {
            Next::Start => match (xml.name(), xml.above(1)) {
                // The number of the page, its date and what is on all pages.
                ("ph", _) => {
                    let kind = xml.attribute("type").unwrap_or_default();
                    if matches!(kind.as_str(), "sldNum" | "dt" | "hdr" | "ftr") {
                        skip_shape(&mut xml)?;
                    }
                }
                ("Fallback", _) => xml.skip()?,
                (name @ ("chart" | "relIds"), "graphicData") if shown.len() < MAX_FILES => {
                    let is_chart = name == "chart";
                    let id = xml.attribute(if is_chart { "id" } else { "dm" });
                    shown.extend(id.map(|id| Shown { is_chart, id }));
                }
                ("tbl", _) => lines.start_table()?,
                ("tr", _) => lines.start_row()?,
                ("tc", _) => lines.start_cell()?,
                ("br", "p") => lines.add("\n")?,
                _ => {}
            },
            Next::End => match xml.name() {
                "p" => lines.end_paragraph()?,
                "tr" => lines.end_row()?,
                "tbl" => lines.end_table()?,
                _ => {}
            },
            Next::Text if xml.name() == "t" && matches!(xml.above(1), "r" | "fld") => {
                lines.add(xml.text())?;
            }
            Next::Text => {}
            Next::Done => return lines.end_line(),
        }
    }
}

/// Goes on to the end of the shape to which a placeholder belongs.
fn skip_shape(xml: &mut Xml) -> Result<()> {
    let shape = (1..4).find(|levels| xml.above(*levels) == "sp");
    xml.skip_above(shape.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{archive, relationships};
    use super::*;

    #[test]
    fn slides_are_in_their_order_with_their_notes() {
        let shape = |kind: &str, text: &str| {
            let holder = format!("<p:nvSpPr><p:nvPr><p:ph type=\"{kind}\"/></p:nvPr></p:nvSpPr>");
            let text =
                format!("<a:p><a:r><a:t>{text}</a:t></a:r><a:br/><a:r><a:t>b</a:t></a:r></a:p>");
            format!("<p:sp>{holder}<p:txBody>{text}</p:txBody></p:sp>")
        };
        let cell = |text: &str| {
            format!("<a:tc><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>")
        };
        let table = format!("<a:tbl><a:tr>{}{}</a:tr></a:tbl>", cell("A"), cell("B"));
        let slide = |content: &str| format!("<p:sld><p:cSld>{content}</p:cSld></p:sld>");
        let order = r#"<p:sldIdLst><p:sldId id="256" r:id="r2"/><p:sldId r:id="r1" id="257"/></p:sldIdLst>"#;
        let file = archive(&[
            ("ppt/presentation.xml", &format!("<p:presentation>{order}</p:presentation>")),
            (
                "ppt/_rels/presentation.xml.rels",
                &relationships(&[
                    ("r1", "slide", "slides/slide1.xml"),
                    ("r2", "slide", "slides/slide2.xml"),
                    ("r3", "slide", "slides/slide3.xml"),
                ]),
            ),
            ("ppt/slides/slide1.xml", &slide(&format!("{}{table}", shape("sldNum", "7")))),
            ("ppt/slides/slide2.xml", &slide(&shape("title", "Tides"))),
            ("ppt/slides/slide3.xml", &slide(&shape("title", "in no list"))),
            (
                "ppt/slides/_rels/slide2.xml.rels",
                &relationships(&[
                    ("a", "notesSlide", "../notesSlides/n.xml"),
                    ("b", "diagramData", "../diagrams/data1.xml"),
                    ("c", "diagramData", "../diagrams/data2.xml"),
                ]),
            ),
            ("ppt/diagrams/data1.xml", "<d><a:p><a:r><a:t>flow</a:t></a:r></a:p></d>"),
            ("ppt/diagrams/data2.xml", "<d><a:p><a:r><a:t>ebb</a:t></a:r></a:p></d>"),
            (
                "ppt/notesSlides/n.xml",
                &slide(&format!("{}{}", shape("body", "Say it"), shape("sldNum", "1"))),
            ),
        ]);
        assert_eq!(text(&file).unwrap().text, "Tides\nb\nflow\nebb\nSay it\nb\n\u{c}A\tB\n");
    }

    #[test]
    fn what_is_damaged_beside_others_is_left_out_and_the_answer_says_so() {
        let text_of = |text: &str| format!("<a><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a>");
        let ids = [("a", "slide", "s/1.xml"), ("b", "slide", "s/2.xml"), ("c", "slide", "s/3.xml")];
        let of_slide = [("a", "notesSlide", "../n.xml"), ("b", "diagramData", "../d.xml")];
        let parts: [(&str, String); 8] = [
            ("_rels/.rels", relationships(&[("a", "officeDocument", "ppt/presentation.xml")])),
            ("ppt/_rels/presentation.xml.rels", relationships(&ids)),
            ("ppt/s/1.xml", text_of("ebb")),
            ("ppt/s/2.xml", text_of("flow")),
            ("ppt/s/3.xml", text_of("slack")),
            ("ppt/s/_rels/1.xml.rels", relationships(&of_slide)),
            ("ppt/n.xml", text_of("notes")),
            ("ppt/d.xml", text_of("diagram")),
        ];
        let read = |damaged: &[&str], how: &str| {
            let order = r#"<p><p:sldId r:id="a"/><p:sldId r:id="b"/><p:sldId r:id="c"/></p>"#;
            let mut files = vec![("ppt/presentation.xml", order)];
            for (name, content) in &parts {
                files.push((name, if damaged.contains(name) { how } else { content }));
            }
            text(&archive(&files)).unwrap()
        };
        let whole = "ebb\ndiagram\nnotes\n\u{c}flow\n\u{c}slack\n";
        assert_eq!(read(&[], ""), whole.to_string().into());
        for how in
            ["<a><b>", "<a></b>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "<a><tbl><tr><tc><p>&x;"]
        {
            assert_eq!(read(&["_rels/.rels"], how), whole.to_string().into());
            for (part, gone, said) in [
                ("ppt/s/1.xml", "ebb\n", "slide 1 is damaged and left out"),
                ("ppt/d.xml", "diagram\n", "diagrams that are damaged are left out"),
                ("ppt/n.xml", "notes\n", "notes of slides that are damaged are left out"),
                (
                    "ppt/s/_rels/1.xml.rels",
                    "diagram\nnotes\n",
                    "the references of a slide are damaged: its diagrams, charts and notes are left out",
                ),
            ] {
                let read = read(&[part], how);
                assert_eq!(
                    (read.text, &read.left_out[..]),
                    (whole.replace(gone, ""), &[said.into()][..])
                );
            }
            let two = read(&["ppt/s/2.xml", "ppt/s/3.xml"], how);
            assert_eq!(two.left_out, ["slides 2 to 3 are damaged and left out"]);
        }
    }

    #[test]
    fn slides_whose_list_is_damaged_are_read_in_the_order_of_their_files() {
        let text_of = |text: &str| format!("<a><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a>");
        let slides: Vec<_> =
            (1..=10).rev().map(|n| (format!("ppt/slides/slide{n}.xml"), n)).collect();
        let ids = relationships(&[("a", "slide", "slides/slide1.xml")]);
        let expected: Vec<_> = (1..=10).map(|n| format!("{n}\n")).collect();
        let said = "the list of the slides is damaged: they are in the order of their files";
        for (list, references) in [("<p/>", "<a><b>"), ("<p><p:sldId r:id=\"a\"/>", &ids)] {
            let mut files = vec![
                ("ppt/presentation.xml".to_string(), list.to_string()),
                ("ppt/_rels/presentation.xml.rels".into(), references.to_string()),
            ];
            assert!(text(&archive(&borrowed(&files))).is_err(), "there is nothing to read");
            files.extend(slides.iter().map(|(name, n)| (name.clone(), text_of(&n.to_string()))));
            let read = text(&archive(&borrowed(&files))).unwrap();
            assert_eq!(
                (read.text, &read.left_out[..]),
                (expected.join("\u{c}"), &[said.into()][..])
            );
        }
    }

    fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
        files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect()
    }

    #[test]
    fn what_is_missing_is_as_good_as_damaged() {
        let text_of = |text: &str| format!("<a><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a>");
        let shows = "<graphicData><c:chart r:id=\"c\"/></graphicData><graphicData><d:relIds r:dm=\"b\"/></graphicData>";
        let ids = [("a", "slide", "s/1.xml"), ("b", "slide", "s/2.xml"), ("m", "slideMaster", "m")];
        let of_slide = relationships(&[
            ("a", "notesSlide", "../n.xml"),
            ("b", "diagramData", "../d.xml"),
            ("c", "chart", "../c.xml"),
        ]);
        let parts: [(&str, String); 7] = [
            ("ppt/_rels/presentation.xml.rels", relationships(&ids)),
            ("ppt/s/1.xml", text_of("ebb").replace("</a>", &format!("{shows}</a>"))),
            ("ppt/s/2.xml", text_of("flow")),
            ("ppt/s/_rels/1.xml.rels", of_slide),
            ("ppt/n.xml", text_of("notes")),
            ("ppt/d.xml", text_of("diagram")),
            ("ppt/c.xml", "<c><title><r><t>chart</t></r></title></c>".into()),
        ];
        let read = |order: &str, missing: &str| {
            let mut files = vec![("ppt/presentation.xml", order)];
            let left = parts.iter().filter(|(name, _)| *name != missing);
            files.extend(left.map(|(name, content)| (*name, content.as_str())));
            text(&archive(&files))
        };
        let order = "<p><p:sldId id=\"256\" r:id=\"a\"/><p:sldId id=\"257\" r:id=\"b\"/></p>";
        let whole = "ebb\ndiagram\nchart\nnotes\n\u{c}flow\n";
        assert_eq!(read(order, "").unwrap(), whole.to_string().into());
        let [slide, chart, diagrams, notes] = [
            "slide 2 is damaged and left out",
            "a chart is damaged and left out",
            "diagrams that are damaged are left out",
            "notes of slides that are damaged are left out",
        ];
        for (missing, gone, said) in [
            ("ppt/s/2.xml", "flow\n", &[slide][..]),
            ("ppt/c.xml", "chart\n", &[chart]),
            ("ppt/d.xml", "diagram\n", &[diagrams]),
            ("ppt/n.xml", "notes\n", &[notes]),
            // Which has notes is not known then.
            ("ppt/s/_rels/1.xml.rels", "diagram\nchart\nnotes\n", &[diagrams, chart]),
        ] {
            let read = read(order, missing).unwrap();
            assert_eq!(
                (read.text, read.left_out),
                (whole.replace(gone, ""), said.iter().map(|said| said.to_string()).collect())
            );
        }
        let more =
            order.replace("</p>", "<p:sldId id=\"258\" r:id=\"x\"/><p:sldId r:id=\"a\"/></p>");
        let left_out = read(&more, "").unwrap().left_out;
        assert_eq!(left_out, ["slide 3 is damaged and left out"]);
        // Of a file whose list names nothing the slides are read if they are where they usually are.
        assert!(read(order, "ppt/_rels/presentation.xml.rels").is_err());
        let usual = [("ppt/presentation.xml", order), ("ppt/slides/slide1.xml", &parts[2].1)];
        let read = text(&archive(&usual)).unwrap();
        let said = "the list of the slides is damaged: they are in the order of their files";
        assert_eq!((read.text.as_str(), read.left_out), ("flow\n", vec![said.to_string()]));
    }

    #[test]
    fn slides_that_sections_list_once_more_are_there_once() {
        let text_of = |text: &str| format!("<a><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a>");
        let list = "<p><sldIdLst><p:sldId id=\"256\" r:id=\"a\"/></sldIdLst><extLst><sectionLst><section>\
                    <p14:sldIdLst><p14:sldId id=\"256\"/></p14:sldIdLst></section></sectionLst></extLst></p>";
        let file = archive(&[
            ("ppt/presentation.xml", list),
            ("ppt/_rels/presentation.xml.rels", &relationships(&[("a", "slide", "s/1.xml")])),
            ("ppt/s/1.xml", &text_of("ebb")),
        ]);
        assert_eq!(text(&file).unwrap(), "ebb\n".to_string().into());
    }
}
