//! Charts of Office Open XML: their titles, labels, and the names of their series and categories.

use std::collections::{HashMap, HashSet};

use super::archive::{Archive, Next, Xml};
use super::lines::Lines;
use super::number_format::shown_by;
use super::package::Relationship;
use super::text::{BoundedText, too_long};
use crate::base::{Kind, Result};

/// The charts of a file.
#[derive(Default)]
pub struct Charts {
    /// Those that were read: each is read once.
    read: HashSet<String>,
    damaged: usize,
}

/// The charts to which a part refers: ids and parts.
pub fn of(parts: &[Relationship]) -> impl Iterator<Item = (&str, &str)> {
    let is_chart = |one: &&Relationship| matches!(one.kind.as_str(), "chart" | "chartEx");
    parts.iter().filter(is_chart).map(|one| (one.id.as_str(), one.target.as_str()))
}

impl Charts {
    /// Returns the lines of a chart; none if it was read. One that is damaged or missing is left out: the
    /// text can do without it.
    pub fn text(
        &mut self,
        archive: &mut Archive,
        part: &str,
        named: Named,
    ) -> Result<Option<String>> {
        if !self.read.insert(part.into()) {
            return Ok(None);
        }
        match archive.referred(part).and_then(|xml| read(xml, named)) {
            Err(error) if error.kind() == Kind::Invalid => {
                self.damaged += 1;
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Counts charts that are shown and of which it is not said where they are.
    pub fn add_missing(&mut self, charts: usize) {
        self.damaged += charts;
    }

    /// Returns the charts of a part by their ids; no text for those that were read or are left out.
    pub fn by_id(
        &mut self,
        archive: &mut Archive,
        parts: &[Relationship],
    ) -> Result<HashMap<String, String>> {
        let mut texts = HashMap::new();
        for (id, part) in of(parts) {
            let text = self.text(archive, part, Named::All)?;
            texts.insert(id.into(), text.unwrap_or_default());
        }
        Ok(texts)
    }

    /// What is left out of them, in a sentence.
    pub fn left_out(&self) -> Vec<String> {
        match self.damaged {
            0 => Vec::new(),
            1 => vec!["a chart is damaged and left out".into()],
            damaged => vec![format!("{damaged} charts are damaged and left out")],
        }
    }
}

/// What of a chart is read besides its titles and labels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The names of series and categories.
    All,
    /// Those of series: categories are cells of the same file.
    Series,
}

/// Names, each once, in their order.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        let name = name.trim();
        if !name.is_empty() && self.known.insert(name.into()) {
            self.all.push(name.into());
        }
    }
}

/// Reads a chart: a line for each title, one for its series and one for its categories.
fn read(mut xml: Xml, named: Named) -> Result<String> {
    use std::fmt::Write as _;
    let (mut lines, mut series, mut categories) =
        (Lines::default(), Names::default(), Names::default());
    // What is open: a title, a series' name or its categories, by depth; and the text of a point, and
    // the format of its numbers.
    let (mut place, mut point, mut format) = (None, BoundedText::default(), BoundedText::default());
    loop {
        match xml.step()? {
            Next::Start => match (xml.name(), xml.above(1)) {
                ("Fallback", _) => xml.skip()?,
                ("title", _) => place = Some((xml.depth(), Place::Title)),
                ("tx", "ser" | "series") => place = Some((xml.depth(), Place::Series)),
                ("cat", "ser") | ("strDim", "data") => {
                    place = Some((xml.depth(), Place::Categories));
                }
                ("pt" | "v", _) => point.text.clear(),
                ("formatCode", _) => format.text.clear(),
                _ => {}
            },
            Next::Text if xml.name() == "t" && matches!(xml.above(1), "r" | "fld") => {
                lines.add(xml.text())?;
            }
            Next::Text
                if matches!(
                    (xml.name(), xml.above(1)),
                    ("v", "pt" | "tx" | "txData") | ("pt", _)
                ) =>
            {
                point.write_str(xml.text()).map_err(|_| too_long())?;
            }
            // A text may come in pieces.
            Next::Text if xml.name() == "formatCode" => {
                format.write_str(xml.text()).map_err(|_| too_long())?;
            }
            Next::Text => {}
            Next::End => {
                match (xml.name(), place) {
                    ("p", _) => lines.end_line()?,
                    // Dates are numbers of days: nobody looks for those.
                    ("formatCode", _) if shown_by(&format.text).date => xml.skip_above(1)?,
                    ("pt", Some((_, place))) | ("v", Some((_, place @ Place::Series))) => {
                        let name = std::mem::take(&mut point.text);
                        match place {
                            Place::Title => {
                                lines.add(name.trim())?;
                                lines.end_line()?;
                            }
                            Place::Series => series.add(&name),
                            Place::Categories if named == Named::All => categories.add(&name),
                            Place::Categories => {}
                        }
                    }
                    _ => {}
                }
                place.take_if(|(depth, _)| *depth == xml.depth());
            }
            Next::Done => break,
        }
    }
    for names in [series, categories] {
        lines.end_line()?;
        lines.add(&names.all.join("\t"))?;
    }
    lines.end_line()?;
    lines.finished()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Title,
    Series,
    Categories,
}

#[cfg(test)]
mod tests {
    use super::super::testing::{archive, relationships};
    use super::super::{docx, pptx, xlsx};
    use super::*;

    const CHART: &str = r#"<c:chartSpace><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Catch by </a:t></a:r><a:r><a:t>harbour</a:t></a:r></a:p></c:rich></c:tx></c:title>
        <c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:f>Sheet1!$B$1</c:f><c:strCache><c:ptCount val="1"/><c:pt idx="0"><c:v>Herring</c:v></c:pt></c:strCache></c:strRef></c:tx>
        <c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>Bergen</c:v></c:pt><c:pt idx="1"><c:v>Kiel</c:v></c:pt></c:strCache></c:strRef></c:cat>
        <c:val><c:numRef><c:numCache><c:formatCode>General</c:formatCode><c:pt idx="0"><c:v>4.25</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>
        <c:ser><c:tx><c:v>Cod</c:v></c:tx><c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>Bergen</c:v></c:pt></c:strCache></c:strRef></c:cat></c:ser>
        </c:barChart><c:valAx><c:title><c:tx><c:strRef><c:strCache><c:pt><c:v>Tonnes</c:v></c:pt></c:strCache></c:strRef></c:tx></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>"#;

    const READ: &str = "Catch by harbour\nTonnes\nHerring\tCod\nBergen\tKiel\n";

    fn of_chart(chart: &str) -> String {
        let bytes = archive(&[("chart.xml", chart)]);
        let mut archive = Archive::open("DOCX", &bytes).unwrap();
        Charts::default().text(&mut archive, "chart.xml", Named::All).unwrap().unwrap()
    }

    #[test]
    fn a_chart_has_its_titles_and_the_names_of_series_and_categories_once() {
        assert_eq!(of_chart(CHART), READ);
        let numbers = |code: &str| {
            let cache = format!(
                "<c:numCache><c:formatCode>{code}</c:formatCode><c:pt><c:v>2019</c:v></c:pt></c:numCache>"
            );
            of_chart(&format!(
                "<c:ser><c:tx><c:v>Cod</c:v></c:tx><c:cat><c:numRef>{cache}</c:numRef></c:cat></c:ser>"
            ))
        };
        assert_eq!(
            (numbers("General"), numbers("d/m/yyyy")),
            ("Cod\n2019\n".into(), "Cod\n".into())
        );
        let text = (numbers("0&quot; days&quot;"), numbers("d&quot;. &quot;mmm"));
        assert_eq!(text, ("Cod\n2019\n".into(), "Cod\n".into()));
        let newer = r#"<cx:chartSpace><cx:chartData><cx:data><cx:strDim type="cat"><cx:f>A</cx:f><cx:lvl><cx:pt idx="0">Spring tide</cx:pt></cx:lvl></cx:strDim></cx:data></cx:chartData>
            <cx:chart><cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Ebb</a:t></a:r></a:p></cx:rich></cx:tx></cx:title><cx:series><cx:tx><cx:txData><cx:f>B</cx:f><cx:v>Level</cx:v></cx:txData></cx:tx></cx:series></cx:chart></cx:chartSpace>"#;
        assert_eq!(of_chart(newer), "Ebb\nLevel\nSpring tide\n");
    }

    /// A DOCX file with a chart that is referred to twice.
    fn document(chart: &str) -> Vec<u8> {
        let drawing = |id: &str| {
            format!(
                "<w:r><w:drawing><a:graphic><a:graphicData><c:chart r:id=\"{id}\"/></a:graphicData></a:graphic></w:drawing></w:r>"
            )
        };
        let text = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
        let body = format!(
            "<w:p>{}{}</w:p><w:p>{}{}</w:p>",
            text("before"),
            drawing("c"),
            drawing("c"),
            text("after")
        );
        archive(&[
            ("word/document.xml", &format!("<w:document>{body}</w:document>")),
            (
                "word/_rels/document.xml.rels",
                &relationships(&[("c", "chart", "charts/chart1.xml")]),
            ),
            ("word/charts/chart1.xml", chart),
        ])
    }

    #[test]
    fn charts_stand_where_the_document_shows_them() {
        let read = docx::text(&document(CHART)).unwrap();
        assert_eq!(read.text, format!("before\n{READ}\nafter\n"));
        assert!(read.left_out.is_empty());
    }

    #[test]
    fn a_damaged_chart_is_left_out_and_the_answer_says_so() {
        for broken in ["<c:chart><c:title>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "<a></b>"] {
            let read = docx::text(&document(broken)).unwrap();
            assert_eq!(read.text, "before\nafter\n", "{broken}");
            assert_eq!(read.left_out, ["a chart is damaged and left out"], "{broken}");
        }
        let wide = format!("<c:p><a:r><a:t>{}</a:t></a:r></c:p>", "a".repeat(11 * 1024 * 1024));
        assert_eq!(docx::text(&document(&wide)).unwrap_err().kind(), Kind::TooLarge);
    }

    #[test]
    fn slides_and_sheets_have_their_charts() {
        let slide = "<p:sld><a:p><a:r><a:t>Slide</a:t></a:r></a:p></p:sld>";
        let read = pptx::text(&archive(&[
            ("ppt/presentation.xml", "<p><p:sldId r:id=\"a\"/></p>"),
            ("ppt/_rels/presentation.xml.rels", &relationships(&[("a", "slide", "slides/s.xml")])),
            ("ppt/slides/s.xml", slide),
            ("ppt/slides/_rels/s.xml.rels", &relationships(&[("a", "chart", "../charts/c.xml")])),
            ("ppt/charts/c.xml", CHART),
        ]));
        assert_eq!(read.unwrap().text, format!("Slide\n{READ}"));

        let sheets = "<sheet name=\"Tides\" r:id=\"a\"/><sheet name=\"Figure\" r:id=\"b\"/>";
        let read = xlsx::text(&archive(&[
            ("xl/workbook.xml", &format!("<workbook><sheets>{sheets}</sheets></workbook>")),
            (
                "xl/_rels/workbook.xml.rels",
                &relationships(&[("a", "worksheet", "ws/s.xml"), ("b", "chartsheet", "cs/s.xml")]),
            ),
            ("xl/ws/s.xml", "<worksheet><row><c><v>1</v></c></row></worksheet>"),
            ("xl/ws/_rels/s.xml.rels", &relationships(&[("a", "drawing", "../d/1.xml")])),
            (
                "xl/d/_rels/1.xml.rels",
                &relationships(&[("a", "chart", "../c/1.xml"), ("b", "chart", "../c/broken.xml")]),
            ),
            ("xl/c/1.xml", CHART),
            ("xl/c/broken.xml", "<a>"),
            ("xl/cs/s.xml", "<chartsheet/>"),
            ("xl/cs/_rels/s.xml.rels", &relationships(&[("a", "drawing", "../d/2.xml")])),
            ("xl/d/_rels/2.xml.rels", &relationships(&[("a", "chart", "../c/2.xml")])),
            ("xl/c/2.xml", CHART),
        ]));
        let read = read.unwrap();
        let chart = "Catch by harbour\nTonnes\nHerring\tCod\n";
        assert_eq!(read.text, format!("Tides\n1\n{chart}\u{c}Figure\n{chart}"));
        assert_eq!(read.left_out, ["a chart is damaged and left out"]);
    }

    #[test]
    fn a_sheet_is_read_whose_references_are_damaged() {
        let own = relationships(&[("a", "drawing", "../d/1.xml")]);
        let of_drawing = relationships(&[("a", "chart", "../c/1.xml")]);
        for (of_sheet, of_drawing) in
            [("<a>", of_drawing.as_str()), ("<a></b>", ""), (own.as_str(), "<a>")]
        {
            let read = xlsx::text(&archive(&[
                (
                    "xl/workbook.xml",
                    "<workbook><sheets><sheet name=\"Tides\" r:id=\"a\"/></sheets></workbook>",
                ),
                ("xl/_rels/workbook.xml.rels", &relationships(&[("a", "worksheet", "ws/s.xml")])),
                ("xl/ws/s.xml", "<worksheet><row><c><v>1</v></c></row></worksheet>"),
                ("xl/ws/_rels/s.xml.rels", of_sheet),
                ("xl/d/_rels/1.xml.rels", of_drawing),
                ("xl/c/1.xml", CHART),
            ]));
            let read = read.unwrap();
            assert_eq!(read.text, "Tides\n1\n");
            let said = "the references of a sheet or drawing are damaged: its charts are left out";
            assert_eq!(read.left_out, [said]);
        }
    }
}
